# SPDX-License-Identifier: Apache-2.0
"""Files in the user's cache folder: built device programs, and which programs crash a driver's compiler."""

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from roadbed.core.errors import OutputError
from roadbed.io.atomic import atomic_write


def folder(name: str) -> Path:
    """The cache folder of this name; it may not exist yet."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "roadbed" / name


def file(name: str, made_from: Iterable[str], suffix: str) -> Path:
    """The file in that folder for content that is made from these texts alone."""
    return folder(name) / (hashlib.sha256("\0".join(made_from).encode()).hexdigest() + suffix)


def write(path: Path, content: bytes) -> None:
    """Write a file of the cache, for this user only. Without room or permission nothing is cached."""
    with suppress(OSError, OutputError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with atomic_write(path) as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(content)
