# SPDX-License-Identifier: Apache-2.0
"""Where built device programs are kept, beside other caches of the user."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path


def folder(runtime: str) -> Path:
    """Of one runtime; it may not exist yet."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "roadbed" / runtime


def file(runtime: str, made_from: Iterable[str], suffix: str) -> Path:
    """The file of what is made from these texts alone."""
    return folder(runtime) / (hashlib.sha256("\0".join(made_from).encode()).hexdigest() + suffix)
