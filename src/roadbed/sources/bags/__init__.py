# SPDX-License-Identifier: Apache-2.0
"""ROS bags by rosbags, with limits on sizes, types and compressed parts, which rosbags does not check."""
