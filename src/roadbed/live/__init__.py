# SPDX-License-Identifier: Apache-2.0
"""Live: scans and poses pushed from any thread, results as they come; ROS and sensors are shells around it."""

from roadbed.live.stream import LiveResult, Stream

__all__ = ["LiveResult", "Stream"]
