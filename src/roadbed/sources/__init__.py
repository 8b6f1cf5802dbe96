# SPDX-License-Identifier: Apache-2.0
"""Where scans come from: one file per format, one registry, `open` guesses the source from the path."""

from __future__ import annotations

from roadbed.sources.registry import Source, open_source, register, registered

__all__ = ["Source", "open_source", "register", "registered"]
