# SPDX-License-Identifier: Apache-2.0
"""`roadbed info`: versions, optional packages, devices; `roadbed info SOURCE`: what a recording holds."""

import platform
import sys
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from roadbed.cli.options import Kind
from roadbed.cli.screen import Json, print_json, table
from roadbed.core.errors import InputError, RoadbedError

_PARTS = {
    "numpy": "core",
    "numba": "core",
    "pydantic": "core",
    "matplotlib": "core",
    "pyopencl": "opencl",
    "cupy-cuda13x": "cuda",
    "viser": "view",
    "rosbags": "io",
    "laspy": "io",
    "velodyne-decoder": "io",
    "pyarrow": "argoverse",
}


def info(
    source: Annotated[str | None, typer.Argument(help="A recording to describe; without it, the installation.")] = None,
    kind: Kind = None,
    as_json: Json = False,
) -> None:
    """Show what a recording holds, or the installation."""
    import os

    if source is not None:
        _info_of(source, kind, as_json)
        return

    import roadbed
    from roadbed.runtime.device_selection import devices, why_missing
    from roadbed.sources import registered

    parts = {name: _version(name) for name in _PARTS}
    facts = {
        "roadbed": roadbed.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "packages": parts,
        "devices": [asdict(device) for device in devices()],
        "missing": why_missing(),
        "sources": list(registered()),
    }
    if as_json:
        print_json(facts)
        return
    print(f"roadbed {facts['roadbed']}, Python {facts['python']}, {facts['machine']}")
    rows = [
        (name, _PARTS[name], found or f"missing: in the checkout, pip install -e '.[{_PARTS[name]}]'")
        for name, found in parts.items()
    ]
    table("Packages", ("package", "extra", "version"), rows)
    found = [
        (d.backend, str(d.index), d.name, d.kind, str(d.units), f"{d.memory / 2**30:.1f} GiB", d.driver)
        for d in devices()
    ]
    if found:
        table("Accelerators", ("backend", "index", "device", "kind", "units", "memory", "driver"), found)
    for reason in why_missing():
        print(reason)
    print("Sources: " + ", ".join(registered()))


def _info_of(location: str, kind: str | None, as_json: bool) -> None:
    """Format, fields, rate, poses and mounting of a recording; of one that does not open, what was recognised."""
    from roadbed.cli.describe import describe, recognised
    from roadbed.sources import open_source
    from roadbed.sources.source import is_live

    try:
        with open_source(location, kind) as opened:
            if is_live(opened):
                raise InputError(f"{location}: found a live source, expected a recording")
            facts = describe(opened)
    except RoadbedError as error:
        known = recognised(location, kind)
        if as_json:
            print_json({"source": location, "recognised": known, "error": str(error)})
        else:
            print(f"recognised: {known}")
            print(f"roadbed: {' '.join(str(error).split())}", file=sys.stderr)
        raise typer.Exit(2) from None
    if as_json:
        print_json(facts)
        return
    fields, options, topics = facts.pop("fields"), facts.pop("options"), facts.pop("topics", ())
    for name, value in facts.items():
        if isinstance(value, list) and name in ("notes", "transforms"):
            for line in value:
                print(f"{name.removesuffix('s')}: {line}")
        else:
            print(f"{name}: {_line(value)}")
    if topics:
        table("Topics", ("topic", "type", "messages"), [list(topic.values()) for topic in topics])
    table("Fields", ("field", "type", "min", "max"), [list(item.values()) for item in fields])
    if options:
        table("Options, after ?", ("option", "effect"), options.items())


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(str(item) if name == "found" else f"{name} {item}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if value is None or isinstance(value, bool):
        return "unknown" if value is None else "yes" if value else "no"
    return str(value)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
