# SPDX-License-Identifier: Apache-2.0
"""The registry of sources. A source is a class with `matches(location)`; third parties add theirs by entry point."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar

from roadbed.core.closing import Closing
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.sources.location import parse_location

# Asked in this order; the first whose `matches` says yes opens the location. Layouts come before loose files.
_BUILT_IN = {
    "fault": "roadbed.sources.fault:FaultSource",
    "simulator": "roadbed.sources.simulator:SimulatorSource",
    "velodyne": "roadbed.sources.sensors.velodyne_udp:VelodyneSource",
    "ouster": "roadbed.sources.sensors.ouster_udp:OusterSource",
    "semantickitti": "roadbed.sources.datasets.semantickitti:SemanticKittiSource",
    "kitti-raw": "roadbed.sources.datasets.kitti_raw:KittiRawSource",
    "rosbag": "roadbed.sources.bags.rosbag:RosbagSource",
    "pcap": "roadbed.sources.sensors.pcap:PcapSource",
    "argoverse": "roadbed.sources.datasets.argoverse:ArgoverseSource",
    "nuscenes": "roadbed.sources.datasets.nuscenes:NuScenesSource",
    "pcd": "roadbed.sources.formats.pcd:PcdSource",
    "ply": "roadbed.sources.formats.ply:PlySource",
    "las": "roadbed.sources.formats.las:LasSource",
    "numpy": "roadbed.sources.formats.npy:NumpySource",
    "kitti-scans": "roadbed.sources.datasets.kitti_scans:KittiScansSource",
}
_ADDED: dict[str, type[Source]] = {}


class Source(Closing):
    """A sequence of scans: `len(source)`, `source[i]`, `source[a:b]`, iteration. A scan is read when it is asked for.

    A class that reads scans has `matches`, `__len__` and `__getitem__` for one number; slices come by themselves.
    """

    name: ClassVar[str] = ""
    accepts: ClassVar[tuple[str, ...]] = ()  # names of the options after `?` or given as keywords
    sequential: bool = True  # False: scans are unrelated places, nothing is carried from one to the next

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__getitem__" in cls.__dict__:
            cls.__getitem__ = _with_slices(cls.__getitem__)  # type: ignore[method-assign]

    def __init__(self, location: str, **options: Any) -> None:
        self.location = location
        self.path, self.options = parse_location(location, self.accepts, options)

    @classmethod
    def matches(cls, location: str) -> bool:
        """Whether this source reads `location` (a path or an address like `sim:city`, without its options)."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, index: int) -> Scan:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Scan]:
        for index in range(len(self)):
            yield self[index]


def is_live(source: Any) -> bool:
    """Whether scans come one by one without an end that is known: from a sensor, or from a generator."""
    try:
        len(source)
    except (TypeError, NotImplementedError):
        return True
    return False


def close_source(source: Any) -> None:
    """So that who waits for its next scan waits no longer; a source that cannot be closed stays as it is."""
    end = getattr(source, "close", None)
    if callable(end):
        with suppress(Exception):
            end()


def _with_slices(read: Callable[[Any, int], Scan]) -> Callable[[Any, Any], Any]:
    """`source[a:b]` as a source of its own, whatever a class does for one number."""

    @wraps(read)
    def getitem(source: Source, index: int | slice) -> Scan | Source:
        if not isinstance(index, slice):
            return read(source, index)

        from roadbed.sources.selection import Selection

        return Selection(source, range(len(source))[index])

    return getitem


def register(name: str, source: type[Source]) -> None:
    """Add a source ahead of the built-in ones."""
    _ADDED[name] = source


def registered() -> dict[str, type[Source]]:
    """Every source by name, in the order they are asked."""
    sources = dict(_ADDED)
    for entry in entry_points(group="roadbed.sources"):
        try:
            sources.setdefault(entry.name, entry.load())
        except Exception as error:  # somebody else's broken package must not keep every other source from opening
            warnings.warn(f"source {entry.name} ({entry.value}) cannot be loaded: {error}", stacklevel=2)
    for name, target in _BUILT_IN.items():
        module, attribute = target.split(":")
        sources.setdefault(name, getattr(import_module(module), attribute))
    return sources


def _matching(sources: dict[str, type[Source]], path: str) -> type[Source] | None:
    return next((kind for kind in sources.values() if kind.matches(path)), None)


def open_source(location: str | Path, source: str | None = None, **options: Any) -> Source:
    """Open a file, folder, bag or address; `source` names the kind where the path alone does not tell."""
    location = str(location)
    path, _ = parse_location(location)
    sources = registered()
    if source is not None and source not in sources:
        raise InputError(f"source {source!r}: expected one of {', '.join(sources)}")
    try:
        kind = sources[source] if source is not None else _matching(sources, path)
        if kind is not None:
            return kind(location, **options)
    except OSError as error:  # a folder that may not be entered, a name longer than any file's
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if ":" not in path and not Path(path).exists():
        raise InputError(f"{path}: no such file or folder")
    raise InputError(f"{path}: not recognised as any of {', '.join(sources)}; name one with source= or --source")
