# SPDX-License-Identifier: Apache-2.0
"""The chain on an accelerator: scans go there once, and what nobody wants stays there; the cells stay the same."""

import pickle
from copy import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import roadbed
from roadbed.core.device_arrays import DeviceArray, lies_on_device
from roadbed.core.errors import ConfigError
from roadbed.core.geometry import Grid
from roadbed.occupancy.engine import OccupancyInput
from roadbed.pipeline import FIELDS
from tests.devices import DRIVERS, accelerator
from tests.simulated import simulated

ACCELERATORS = [name for name in DRIVERS if name != "cpu"]
LAYERS = ("static", "dynamic", "free", "unknown", "occupied", "velocity", "moving", "observation", "observedness")


@pytest.fixture(scope="module", params=ACCELERATORS)
def device(request):
    return accelerator(request.param)


@pytest.fixture(scope="module")
def scans():
    """A drive in which something moves."""
    return simulated("sim:city?sensor=vlp16", 7)


def counted(monkeypatch, device, name, size_of):
    """How much goes through a method of the device from now on."""
    passed, original = [], getattr(device, name)

    def through(*arguments):
        passed.append(size_of(*arguments))
        return original(*arguments)

    monkeypatch.setattr(device, name, through)
    return passed


def test_cells_do_not_depend_on_where_the_ground_is_read_from(device, scans):
    """One ground frame given to two filters: left on the device, and brought to the host and sent back."""
    ground, there, over_host = (
        roadbed.GroundFilter(backend=device),
        *(roadbed.OccupancyFilter(backend=device) for _ in "ab"),
    )
    for scan in scans:
        surface = ground(scan)
        here, expected = there(scan, surface), over_host(scan, replace(surface, device=None))
        for name in LAYERS:
            np.testing.assert_array_equal(getattr(here, name), getattr(expected, name), err_msg=name)
        assert [thing.id for thing in here.objects] == [thing.id for thing in expected.objects]
    assert here.moving.any()


def test_a_mask_on_the_device_keeps_the_same_points_from_the_ground(device, scans):
    """Half of the lattice is said to move: its surface is not shaped by the scan, wherever the mask comes from."""
    cells = Grid.centred(60.0, 60.0, 0.5)
    mask = np.zeros(cells.shape, np.bool_)
    mask[:, 60:] = True
    words = np.zeros(-(-mask.size // 4) * 4, np.uint8)
    words[: mask.size] = mask.ravel()
    held = DeviceArray(device.upload(words), count=mask.size)
    elevation = [
        roadbed.GroundFilter(backend=device)(scans[0], moving=moving).elevation
        for moving in ((cells, mask), (cells, held), None)
    ]
    np.testing.assert_allclose(elevation[0], elevation[1], atol=1e-5)
    assert np.count_nonzero(np.isnan(elevation[0]) != np.isnan(elevation[2])) > 100


def test_a_scan_goes_to_the_device_once(device, scans, monkeypatch):
    """By the ground alone, with masks of a byte per point; layers, heights and the moving cells are never sent."""
    pipeline = roadbed.Pipeline(backend=device)
    for scan in scans[:-1]:
        pipeline(scan)
    sent = [counted(monkeypatch, device, name, lambda array, *_: array.nbytes) for name in ("bind", "upload")]
    pipeline(scans[-1])
    assert [size for size in sent[0] + sent[1] if size > len(scans[-1])] == [scans[-1].points.nbytes]


def test_what_the_ground_left_is_read_only_while_it_is_there(device, scans):
    ground = roadbed.GroundFilter(backend=device)
    first = ground(scans[0])
    given = OccupancyInput.of(scans[0], first, first.grid, backend=device)
    assert isinstance(given.points, DeviceArray)
    assert isinstance(given.surface.elevation, DeviceArray)
    assert isinstance(OccupancyInput.of(scans[0], first, first.grid, backend=None).points, np.ndarray)
    ground(scans[1])
    late = OccupancyInput.of(scans[0], first, first.grid, backend=device)
    np.testing.assert_array_equal(late.heights, first.height_above_ground)


def test_results_travel_to_other_processes_without_the_device(device, scans):
    pipeline = roadbed.Pipeline(backend=device)
    result = pipeline(scans[0])
    assert result.ground.device is not None
    assert result.occupancy.device is not None
    copied = pickle.loads(pickle.dumps(result))
    assert copied.ground.device is None
    assert copied.occupancy.device is None
    np.testing.assert_array_equal(copied.occupancy.static, result.occupancy.static)


def test_only_what_is_wanted_comes_to_the_host(device, scans, monkeypatch):
    pipeline = roadbed.Pipeline(backend=device, fields=())
    fetched = counted(monkeypatch, device, "queue_download", lambda _buffer, _start, count: count)
    for scan in scans:
        before = copy(device.traffic)
        lean = pipeline(scan)
        assert len(lean.ground.label) == len(scan)
    # Placing the scan, the rest of its ground, and the occupancy are a sequence of launches each; when the ground is
    # completed, after the occupancy, nothing is left to wait for.
    assert (device.traffic.graphs - before.graphs, device.traffic.waits - before.waits) == (3, 2)
    assert lean.occupancy.moving.any()
    assert lean.ground.height_above_ground.size == lean.ground.ground_probability.size == 0
    assert lean.occupancy.static.size == lean.occupancy.velocity.size == 0
    assert lean.occupancy.observation is None
    assert lean.occupancy.objects == ()
    cells = lean.occupancy.grid.size
    assert len(fetched) == len(scans)  # one copy per scan: the moving cells, and what found no particle
    assert sum(fetched) < 1.1 * cells * len(scans)


def test_the_device_is_told_of_the_occupancy_before_the_ground_is_waited_for(device, scans, monkeypatch):
    """The host waits for the scan's place alone, by an event, and for everything else once."""
    pipeline = roadbed.Pipeline(backend=device)
    for scan in scans[:-1]:
        pipeline(scan)
    before, finish, told = copy(device.traffic), device.finish, []
    monkeypatch.setattr(device, "finish", lambda: (told.append(device.traffic.graphs - before.graphs), finish()))
    result = pipeline(scans[-1])
    assert result.ground.used_prior
    # At the first wait for all: the place of the scan, the rest of its ground, and the three parts of its occupancy.
    assert told[0] == 5
    assert device.traffic.event_waits - before.event_waits == 1


def test_who_asks_for_the_ground_first_gets_it_complete(device, scans):
    """The labels are there when `on_ground` is called, before the device is told of the occupancy."""
    pipeline, plain = roadbed.Pipeline(backend=device), roadbed.Pipeline(backend=device)
    seen, graphs = [], []

    def on_ground(result):
        seen.append([result.ground.label.copy(), result.ground.elevation.copy()])
        graphs.append(device.traffic.graphs)

    for scan in scans[:4]:
        result = pipeline(scan, on_ground=on_ground)
        assert device.traffic.graphs > graphs[-1]
        for early, late in zip(seen[-1], (result.ground.label, result.ground.elevation)):
            np.testing.assert_array_equal(early, late)
        assert (plain(scan).ground.label != result.ground.label).mean() < 1e-3


def test_names_that_are_no_results_are_explained(tmp_path):
    with pytest.raises(ConfigError, match="fields: found speed, expected some of ground_probability, height"):
        roadbed.Pipeline(fields=("masses", "speed"))
    with pytest.raises(ConfigError, match="a long-term map needs all of them"):
        roadbed.Pipeline(fields=("masses",), map_folder=tmp_path)
    assert set(FIELDS) >= {"masses", "objects"}


@pytest.mark.parametrize(("kind", "on_device"), [(1, False), (3, False), (11, False), (2, True), (10, True), (4, True)])
def test_memory_that_the_host_can_read_is_not_on_a_device(kind, on_device):
    """By the numbers of DLPack: ordinary and pinned memory, CUDA, ROCm and OpenCL."""
    array = SimpleNamespace(__dlpack_device__=lambda: (kind, 0))
    assert lies_on_device(array) == on_device
