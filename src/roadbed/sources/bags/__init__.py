# SPDX-License-Identifier: Apache-2.0
"""ROS bags by rosbags, which believes what a bag says: here its sizes, types and compressed parts keep bounds."""
