# SPDX-License-Identifier: Apache-2.0
"""The web viewer: `with Viewer(roadbed.open("sequence/")) as viewer: viewer.wait()`."""

from roadbed.viewer.app import Viewer

__all__ = ["Viewer"]
