# SPDX-License-Identifier: Apache-2.0
"""Results and scans are the caller's: what is written into their arrays changes no later result."""

from collections.abc import Iterator
from dataclasses import is_dataclass, replace

import numpy as np
import pytest

import roadbed
from roadbed.core.frames import PER_POINT
from tests.devices import BACKENDS, backend
from tests.simulated import simulated

_FRAMES = 8


def _arrays(value, path: str) -> Iterator[tuple[str, np.ndarray]]:
    """Every array that a caller reaches from a result, with its name."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, roadbed.Pose):
        yield from ((f"{path}.{name}", getattr(value, name)) for name in ("rotation", "translation", "matrix"))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _arrays(item, f"{path}.{key}")
    elif is_dataclass(value) or hasattr(value, "tracks"):
        for key, item in list(vars(value).items()):
            yield from _arrays(item, f"{path}.{key}")
        for number, item in enumerate(value if hasattr(value, "tracks") else ()):
            yield from _arrays(item, f"{path}[{number}]")


def _own(scan: roadbed.Scan) -> roadbed.Scan:
    """The scan with arrays of its own."""
    channels = {name: None if (found := getattr(scan, name)) is None else found.copy() for name in PER_POINT}
    return replace(scan, points=scan.points.copy(), **channels)


def _overwrite(array: np.ndarray) -> None:
    if array.dtype.names:
        array[...] = np.zeros((), array.dtype)
    else:
        array[...] = ~array if array.dtype == bool else 1


def _run(pipeline: roadbed.Pipeline, scans: list[roadbed.Scan], overwrites: bool) -> list[dict[str, np.ndarray]]:
    found = []
    for scan in map(_own, scans):
        given, result = scan.points.copy(), pipeline(scan)
        np.testing.assert_array_equal(scan.points, given)
        found.append({name: array.copy() for name, array in _arrays(result, "result")})
        for _, array in _arrays(result, "result") if overwrites else ():
            if array.flags.writeable:
                _overwrite(array)
    return found


@pytest.mark.usefixtures("unprobed")
@pytest.mark.parametrize("method", ["stcrf", "variance"])
@pytest.mark.parametrize("name", [name for name in BACKENDS if name != "opencl-lanes"])
def test_writing_into_results_and_scans_changes_no_later_result(name, method):
    """The last scan comes twice: its result is given again, and the ground leaves out what moved before."""
    scans = simulated("sim:city?sensor=vlp16", _FRAMES)
    scans = [*scans, scans[-1]]
    config = roadbed.Config.parse({"ground": {"method": method}})
    first, second = (roadbed.Pipeline(config, backend(name)) for _ in range(2))
    expected, found = _run(first, scans, overwrites=False), _run(second, scans, overwrites=True)
    assert method == "variance" or any(frame["result.occupancy.moving"].any() for frame in expected)
    for frame, (clean, dirty) in enumerate(zip(expected, found)):
        # A repeated scan shares the layers of the frame before, but for what moves.
        layers = () if frame == _FRAMES else ("ground.elevation", "occupancy.static")
        for key in ("ground.label", "occupancy.moving", *layers):
            one, other = clean[f"result.{key}"], dirty[f"result.{key}"]
            if name == "cpu":
                np.testing.assert_array_equal(one, other, err_msg=f"frame {frame}: {key}")
            else:  # sums in another order differ in the last bits
                assert (np.nan_to_num(np.abs(one * 1.0 - other)) > 0.01).mean() < 2e-3, f"frame {frame}: {key}"
