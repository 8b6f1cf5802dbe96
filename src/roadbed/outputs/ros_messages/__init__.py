# SPDX-License-Identifier: Apache-2.0
"""Results as ROS messages and clouds as scans, once for ROS 1, ROS 2 and bags; no ROS is needed."""
