# SPDX-License-Identifier: Apache-2.0
"""Pictures of frames and runs, made without a display."""

from roadbed.outputs.images.animation import save_animation
from roadbed.outputs.images.figure import frame_figure, overview_figure, png_bytes, quick_image, save_frame_image

__all__ = ["frame_figure", "overview_figure", "png_bytes", "quick_image", "save_animation", "save_frame_image"]
