# SPDX-License-Identifier: Apache-2.0
"""Atomic folders: written under another name, then renamed. Files that Roadbed did not write are never replaced."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from roadbed.core.errors import OutputError
from roadbed.io.atomic import output_errors
from roadbed.outputs.folder import foreign_file


@contextmanager
def atomic_folder(target: Path, beside: Path, foreign: Callable[[Path], str | None] = foreign_file) -> Iterator[Path]:
    """A new folder in `beside` that becomes `target` at the end of the block; it is removed if the block raises.

    An earlier `target` is replaced unless `foreign` names a file in it that Roadbed did not write. If another worker
    was faster, its result stays.
    """
    with output_errors(target):
        beside.mkdir(parents=True, exist_ok=True)
        folder = beside / f"{target.name}~{os.urandom(6).hex()}"
        folder.mkdir()
        try:
            yield folder
            _replace(folder, target, foreign)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _replace(folder: Path, target: Path, foreign: Callable[[Path], str | None]) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    old = folder.with_name(f"{folder.name}-old")
    if target.exists():
        name = foreign(target)
        if name is not None:
            raise OutputError(f"{target / name}: was not written by Roadbed, and its folder is to be replaced")
        target.rename(old)
    try:
        folder.rename(target)
    except OSError:
        if not target.exists():
            raise
    shutil.rmtree(old, ignore_errors=True)
