# SPDX-License-Identifier: Apache-2.0
"""Where scans come from: one module per format behind one registry; `open_source` picks it by the path."""

from roadbed.sources.registry import open_source, register, registered
from roadbed.sources.source import Source

__all__ = ["Source", "open_source", "register", "registered"]
