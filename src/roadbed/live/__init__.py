# SPDX-License-Identifier: Apache-2.0
"""Live processing: push scans and poses from any thread, get results as they are ready. ROS nodes build on it."""

from roadbed.live.stream import LiveResult, Stream

__all__ = ["LiveResult", "Stream"]
