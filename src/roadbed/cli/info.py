# SPDX-License-Identifier: Apache-2.0
"""`roadbed info`: versions, optional packages, devices."""

from __future__ import annotations

import platform
from dataclasses import asdict
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
    "velodyne-decoder": "io",
    "pyarrow": "argoverse",
}


def info(as_json: Json = False) -> None:
    """Show versions, optional packages, devices and sources."""
    import os

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
    table("Accelerators", ("backend", "index", "device", "kind", "units", "memory", "driver"), found)
    for reason in why_missing():
        print(reason)
    print("Sources: " + ", ".join(registered()))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
