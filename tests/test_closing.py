# SPDX-License-Identifier: Apache-2.0
"""Filters and pipelines as context managers: after `with`, they refuse to work and can be closed again."""

import copy
import gc
import pickle
import weakref

import pytest

import roadbed
from roadbed.core.errors import DeviceError
from tests.devices import BACKENDS, backend

pytestmark = pytest.mark.long(20)


@pytest.fixture(scope="module")
def scan():
    return roadbed.open("sim:parking?sensor=lux4&frames=1")[0]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_closed_ground_filter_refuses_scans_and_frees_its_engine(name, scan):
    with roadbed.GroundFilter(backend=backend(name)) as ground:
        frame = ground(scan)
        engine = weakref.ref(ground._method.engine)
    with pytest.raises(DeviceError, match="this GroundFilter is closed: create a new one"):
        ground(scan)
    ground.close()
    gc.collect()
    assert engine() is None
    assert len(frame.label) == len(scan)  # results outlive the filter


@pytest.mark.parametrize("name", BACKENDS)
def test_a_closed_pipeline_refuses_scans(name, scan):
    with roadbed.Pipeline(backend=backend(name)) as pipeline:
        result = pipeline(scan)
    with pytest.raises(DeviceError, match="is closed: create a new one"):
        pipeline(scan)
    pipeline.close()
    assert result.occupancy.occupied.shape == result.occupancy.grid.shape


def test_an_error_inside_with_closes_too(scan):
    with pytest.raises(ZeroDivisionError), roadbed.OccupancyFilter() as occupancy:
        raise ZeroDivisionError
    with pytest.raises(DeviceError, match="this OccupancyFilter is closed"):
        occupancy(scan, roadbed.GroundFilter()(scan))


def test_a_closed_filter_on_the_cpu_frees_its_arrays_without_a_collection(scan):
    ground = roadbed.GroundFilter()
    ground(scan)
    engine = ground._method.engine
    kept = [weakref.ref(one) for one in (ground._method, engine, engine._coarse)]
    gc.disable()
    try:
        del engine
        ground.close()
        assert [one() for one in kept] == [None] * 3
    finally:
        gc.enable()


@pytest.mark.parametrize("make", [roadbed.GroundFilter, roadbed.OccupancyFilter, roadbed.Pipeline])
def test_what_holds_a_device_is_not_copied_but_sources_are(make):
    for spread in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=f"{make.__name__}: cannot be copied or pickled; create one from its"):
            spread(make())
    source = pickle.loads(pickle.dumps(roadbed.open("sim:parking?frames=3")))
    assert len(source) == 3
