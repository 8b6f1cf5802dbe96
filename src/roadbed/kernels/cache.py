# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled kernels: one folder per module, named by a digest of the sources that the module depends on.

Numba invalidates a cached kernel when its own source file changes, but not when the file of a function it calls
changes. The digest covers all of these files, so no stale machine code is loaded.
"""

import atexit
import hashlib
import os
import re
import shutil
import stat
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba

_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^\s*(?:from\s+(roadbed[\w.]*)\s+import\s+(\([^)]*\)|.*)|import\s+(roadbed[\w.]*))", re.MULTILINE)
_NOT_IN_KERNELS = {f"{_PACKAGE}/{name}" for name in ("__init__.py", "kernels/cache.py", "kernels/progress.py")}
_DAY = 86400.0  # s
_UNUSED_DAYS = 60  # after which a folder is removed
_config: Any = numba.config
_lock = threading.RLock()  # numba.config is shared by all threads


def folder() -> Path:
    """The folder of all kernels: in NUMBA_CACHE_DIR if that is set, else in the user's cache folder."""
    with _lock:
        if _config.CACHE_DIR:
            return Path(_config.CACHE_DIR) / "roadbed"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roadbed" / "kernels"


@contextmanager
def cache_folder_of(file: str) -> Iterator[bool]:
    """Context in which Numba caches functions in the folder of this source file; False if no safe folder exists."""
    with _lock:
        path = _prepare(folder(), file)
        before = _config.CACHE_DIR
        if path is not None:
            _config.CACHE_DIR = str(path)
        try:
            yield path is not None
        finally:
            _config.CACHE_DIR = before


def is_cached(file: str, qualname: str) -> bool:
    """Whether Numba has written an index file (.nbi) for this function of a source file."""
    return any((folder() / _folder_name(file)).glob(f"*/*.{qualname}-*.nbi"))


@cache
def digest_of(*files: Path) -> str:
    """Changes with any of these source files, with any Roadbed module they import, and with Numba's settings."""
    settings = "OPT", "BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "SLP_VECTORIZE"
    found: dict[str, bytes] = {}
    waiting = [str(file) for file in files]  # text: `Path` takes twice as long, at every start
    while waiting:
        file = waiting.pop()
        inside = file.startswith(f"{_PACKAGE}/")
        name = file.removeprefix(f"{_PACKAGE}/") if inside else os.path.basename(file)
        if name not in found:
            found[name], imported = _read(file)
            waiting += imported
    # Numba keeps the kernels of each checkout apart, so the digests of two checkouts must differ.
    described = (
        str(_PACKAGE),
        numba.__version__,
        [getattr(_config, name, None) for name in settings],
        sorted(found.items()),
    )
    return hashlib.sha256(repr(described).encode()).hexdigest()[:16]


@cache
def _read(file: str) -> tuple[bytes, tuple[str, ...]]:
    """Digest of a source file, and the files of the Roadbed modules that it imports."""
    source = Path(file).read_bytes()
    imported: set[str] = set()
    for module, names, plain in _IMPORT.findall(source.decode()):
        base = "/".join([str(_PACKAGE), *(module or plain).split(".")[1:]])
        folder, name = os.path.split(base)
        imported |= _modules(folder, (name,)) | _modules(base, re.findall(r"\w+", names))
    return hashlib.sha256(source).digest(), tuple(imported - _NOT_IN_KERNELS)


def _modules(folder: str, names: Sequence[str]) -> set[str]:
    """The files of these modules and packages in a folder."""
    present = _listed(folder)  # instead of a look at the disk for each name
    files = {f"{folder}/{name}.py" for name in names if f"{name}.py" in present}
    packages = [f"{folder}/{name}" for name in names if name in present]
    return files | {f"{package}/__init__.py" for package in packages if "__init__.py" in _listed(package)}


@cache
def _listed(folder: str) -> frozenset[str]:
    return frozenset(os.listdir(folder)) if os.path.isdir(folder) else frozenset()


@cache
def _folder_name(file: str) -> str:
    path = Path(file).resolve()
    name = path.relative_to(_PACKAGE).with_suffix("") if path.is_relative_to(_PACKAGE) else Path(path.stem)
    return f"{'.'.join(name.parts)}-{digest_of(path)}"


@cache
def _prepare(base: Path, file: str) -> Path | None:
    """The folder for a source file, created if needed; None where it would not be safe or cannot be written."""
    if not _is_usable(base):
        return None
    path = base / _folder_name(file)
    with suppress(OSError):
        if not path.exists():
            path.mkdir(mode=0o700)
            remove_unused(base)
        elif time.time() - path.stat().st_mtime > _DAY:
            os.utime(path)  # in use
        make_private(path)
        atexit.register(make_private, path)  # Numba writes files with the modes of the umask
        return path
    return None


@cache
def _is_usable(base: Path) -> bool:
    """Whether only this user can write to `base`. Numba unpickles its files, so their author can run code here."""
    try:
        for path in (*reversed(base.parents), base):
            if not path.exists():
                path.mkdir(mode=0o700, exist_ok=True)
        reason = _weakness(base)
        if not reason:
            reached = base.stat().st_mode & 0o077
            base.chmod(0o700)
            if reached:  # others could enter until now, and write to what was open to them
                for path in base.iterdir():
                    make_private(path, distrust=True)
            return True
    except OSError as error:
        reason = f"{base} cannot be used: {error.strerror}"
    warnings.warn(
        f"roadbed: compiled kernels are not cached: {reason}; NUMBA_CACHE_DIR can name another folder", stacklevel=2
    )
    return False


def _weakness(base: Path) -> str:
    """Why others could replace files in `base`; empty if they cannot."""
    facts, user = base.stat(), os.getuid()
    if not os.access(base, os.W_OK | os.X_OK):
        return f"{base} is not writable"
    if facts.st_uid != user or facts.st_mode & 0o022:
        return f"{base} can be written by other users"
    for parent in base.resolve().parents:  # who can write there can put another folder in place of this one
        facts = parent.stat()
        own_group = facts.st_gid == user and not facts.st_mode & 0o002  # the user's private group has the user's number
        safe = not facts.st_mode & 0o022 or facts.st_mode & stat.S_ISVTX or own_group
        if facts.st_uid not in (0, user) or not safe:
            return f"{parent} can be written by other users"
    return ""


def make_private(path: Path, distrust: bool = False) -> None:
    """Modes 0700 and 0600 for `path` and all in it; files of other users, links and special files are removed.

    With `distrust`, files that others could write to are removed too.
    """
    facts = path.lstat()
    is_folder = stat.S_ISDIR(facts.st_mode)
    is_own = facts.st_uid == os.getuid() and (is_folder or stat.S_ISREG(facts.st_mode))
    if not is_own or (distrust and facts.st_mode & 0o022):
        shutil.rmtree(path) if is_folder else path.unlink()
        return
    if facts.st_mode & 0o077:
        path.chmod(0o700 if is_folder else 0o600)
    for entry in path.iterdir() if is_folder else ():
        with suppress(FileNotFoundError):  # removed by another process
            make_private(entry, distrust)


def remove_unused(base: Path) -> None:
    """Remove folders and proof files that no process has used for 60 days."""
    oldest = time.time() - _UNUSED_DAYS * _DAY
    for path in base.iterdir():
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
