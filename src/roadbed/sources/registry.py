# SPDX-License-Identifier: Apache-2.0
"""The registry of sources: which class opens a location. Other packages add theirs by entry point."""

from __future__ import annotations

import sys
import warnings
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

from roadbed.core.errors import InputError
from roadbed.sources.location import parse_location
from roadbed.sources.source import Source

# The first class whose `matches` accepts a location opens it. Folder layouts come before single files.
_BUILT_IN = {
    "simulator": "roadbed.sources.simulator:SimulatorSource",
    "velodyne": "roadbed.sources.sensors.udp:VelodyneSource",
    "ouster": "roadbed.sources.sensors.udp:OusterSource",
    "hesai": "roadbed.sources.sensors.udp:HesaiSource",
    "semantickitti": "roadbed.sources.datasets.semantickitti:SemanticKittiSource",
    "kitti-raw": "roadbed.sources.datasets.kitti_raw:KittiRawSource",
    "kitti-tracking": "roadbed.sources.datasets.kitti_tracking:KittiTrackingSource",
    "rosbag": "roadbed.sources.bags.rosbag:RosbagSource",
    "pcap": "roadbed.sources.sensors.pcap:PcapSource",
    "osf": "roadbed.sources.sensors.osf:OsfSource",
    "argoverse": "roadbed.sources.datasets.argoverse:ArgoverseSource",
    "nuscenes-scene": "roadbed.sources.datasets.nuscenes:NuScenesSceneSource",
    "nuscenes": "roadbed.sources.formats.bin:NuScenesSource",
    "pcd": "roadbed.sources.formats.pcd:PcdSource",
    "ply": "roadbed.sources.formats.ply:PlySource",
    "las": "roadbed.sources.formats.las:LasSource",
    "numpy": "roadbed.sources.formats.npy:NumpySource",
    "bin": "roadbed.sources.formats.bin:BinSource",
    "ptx": "roadbed.sources.formats.text:PtxSource",
    "text": "roadbed.sources.formats.text:TextSource",
}
_ADDED: dict[str, type[Source]] = {}


def register(name: str, source: type[Source]) -> None:
    """Add a source ahead of the built-in ones."""
    _ADDED[name] = source


def registered() -> dict[str, type[Source]]:
    """Every source by name, in the order in which they are tried."""
    sources = dict(_ADDED)
    for entry in _entry_points(tuple(sys.path)):
        try:
            sources.setdefault(entry.name, entry.load())
        except Exception as error:  # a broken third-party package must not disable the other sources
            warnings.warn(f"source {entry.name} ({entry.value}) cannot be loaded: {error}", stacklevel=2)
    for name, target in _BUILT_IN.items():
        module, attribute = target.split(":")
        sources.setdefault(name, getattr(import_module(module), attribute))
    return sources


@cache
def _entry_points(search_path: tuple[str, ...]) -> EntryPoints:
    """Entry points of the packages on this path; cached, because a file of every installed package is read."""
    return entry_points(group="roadbed.sources")


def open_source(location: str | Path, source: str | None = None, **options: Any) -> Source:
    """Open a file, folder, bag or address; `source` names the kind where the path alone is ambiguous."""
    location = str(location)
    path, in_location = parse_location(location)
    sources = registered()
    if source is not None and source not in sources:
        raise InputError(f"source {source!r}: expected one of {', '.join(sources)}")
    try:
        kind = sources[source] if source else next((kind for kind in sources.values() if kind.matches(path)), None)
        if kind is not None:
            if "of" in kind.accepts and "of" in in_location:  # a source that wraps another one
                options.setdefault("of", open_source(in_location["of"]))
            return kind(location, **options)
    except OSError as error:  # e.g. no permission for a folder, or a name that is too long
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    if ":" not in path and not Path(path).exists():
        raise InputError(f"{path}: no such file or folder")
    if path.lower().endswith(".e57"):
        raise InputError(f"{path}: E57 is not read; convert it to LAS with CloudCompare or pdal translate")
    if path.lower().endswith((".gz", ".zip", ".zst", ".bz2", ".xz")):
        raise InputError(f"{path}: compressed files are not read; unpack it first")
    if Path(path).is_dir() and not any(Path(path).iterdir()):
        raise InputError(f"{path}: found an empty folder, expected scans")
    raise InputError(f"{path}: not recognised as any of {', '.join(sources)}; name one with source= or --source")
