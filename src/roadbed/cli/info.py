# SPDX-License-Identifier: Apache-2.0
"""`roadbed info`: versions, optional parts, devices."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from roadbed.cli.screen import Json, print_json, table

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
    "pypcd4": "io",
    "velodyne-decoder": "io",
}


def info(as_json: Json = False) -> None:
    """Show versions, which optional parts are installed, and the sources that can be read."""
    import os

    import roadbed
    from roadbed.sources import registered

    parts = {name: _version(name) for name in _PARTS}
    facts = {
        "roadbed": roadbed.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "packages": parts,
        "sources": list(registered()),
    }
    if as_json:
        print_json(facts)
        return
    print(f"roadbed {facts['roadbed']}, Python {facts['python']}, {facts['machine']}")
    rows = [
        (name, _PARTS[name], found or f"missing: pip install 'roadbed[{_PARTS[name]}]'")
        for name, found in parts.items()
    ]
    table("Packages", ("package", "extra", "version"), rows)
    print("Sources: " + ", ".join(registered()))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
