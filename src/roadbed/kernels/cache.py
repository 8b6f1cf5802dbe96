# SPDX-License-Identifier: Apache-2.0
"""Compiled kernels on disk, in one folder for every environment and checkout of a user, known by their fingerprint.

A change to a kernel, to one that it calls or to a constant gives another file name: nothing stale is ever loaded.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import time
import zlib
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numba
from numba.core import sigutils
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from roadbed.core.errors import OutputError
from roadbed.io.atomic import atomic_write
from roadbed.kernels.fingerprint import describe_type, fingerprint

_SUM = 4  # bytes
_UNUSED_FOR = 60 * 86400.0  # s after which a file that nobody loaded is removed


def folder() -> Path:
    """NUMBA_CACHE_DIR where it is set, else the user's cache folder."""
    named = getattr(numba.config, "CACHE_DIR", "")
    if named:
        return Path(named) / "roadbed"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roadbed" / "kernels"


def kept() -> set[str]:
    """The prefixes of all kernels in the folder."""
    try:
        return {name.rpartition("-")[0] for name in os.listdir(folder()) if name.endswith(".nbc")}
    except OSError:
        return set()


class KernelCache:
    """What Numba's dispatcher asks of a cache, for one kernel."""

    def __init__(self, kernel: Dispatcher, loading: Any = None) -> None:
        self._kernel, self._loading = kernel, loading  # the module of that name where it knows Numba from inside
        self._name = f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"
        self._enabled = True

    @property
    def cache_path(self) -> str:
        return str(folder())

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        for path in self._files("*"):
            path.unlink(missing_ok=True)

    @property
    def prefix(self) -> str:
        """How the file names of the kernel as it is now begin, whatever its arguments."""
        return f"{self._name}-{fingerprint(self._kernel)}"

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        if not self._enabled:
            return None
        path = self._path(signature, target_context.codegen())
        # Numba's runtime is all that running needs; what compiling needs takes a third of a second.
        if self._loading is None:
            rtsys.initialize(target_context)
        elif not rtsys._init:
            runtime = _file("numba.runtime", [], target_context.codegen())
            self._loading.start_runtime(target_context, partial(_read, runtime), partial(_write, runtime))
        payload = _read(path)
        if payload is None:
            return None
        rebuild = CompileResult._rebuild if self._loading is None else self._loading.rebuild
        return rebuild(target_context, *payload)

    def save_overload(self, signature: Any, result: Any) -> None:
        if not self._enabled or result.library.has_dynamic_globals or any(not part.can_cache for part in result.lifted):
            return
        # Types beside each line of the source are for reading, and take long to write out.
        *payload, environments = result._replace(type_annotation="")._reduce()
        # Of the functions that it calls only those that hold objects of Python read theirs.
        environments = tuple(one for one in environments if one is result.environment or one.consts)
        if _write(self._path(signature, result.codegen), (*payload, environments)):
            for other in self._files("*"):
                with suppress(OSError):
                    if time.time() - other.stat().st_mtime > _UNUSED_FOR:
                        other.unlink(missing_ok=True)

    def _path(self, signature: Any, codegen: Any) -> Path:
        arguments = [describe_type(kind) for kind in sigutils.normalize_signature(signature)[0]]
        return _file(self.prefix, arguments, codegen)

    def _files(self, pattern: str) -> list[Path]:
        return list(folder().glob(f"{self._name}-{pattern}.nbc"))


def _file(prefix: str, arguments: list[str], codegen: Any) -> Path:
    machine = (*codegen.magic_tuple(), numba.__version__, sys.version_info[:2], sys.implementation.cache_tag)
    digest = hashlib.sha256(repr((arguments, machine)).encode()).hexdigest()[:16]
    return folder() / f"{prefix}-{digest}.nbc"


def _read(path: Path) -> Any:
    try:
        stored = memoryview(path.read_bytes())
        if stored[:_SUM] != _sum_of(stored[_SUM:]):
            return None  # damaged: compiled anew
        content = pickle.loads(stored[_SUM:])
    except (OSError, AttributeError, ImportError):
        return None  # not there, or of another version
    with suppress(OSError):
        os.utime(path)  # it is in use
    return content


def _sum_of(stored: bytes | memoryview) -> bytes:
    """What a file begins with: machine code that was damaged would still be run."""
    return zlib.crc32(stored).to_bytes(_SUM, "little")


def _write(path: Path, content: Any) -> bool:
    with suppress(OSError, OutputError):  # a disk that is full or not ours: compiled again next time
        with atomic_write(path) as file:
            stored = dumps(content)
            file.write(_sum_of(stored) + stored)
        return True
    return False
