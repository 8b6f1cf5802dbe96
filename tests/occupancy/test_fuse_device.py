# SPDX-License-Identifier: Apache-2.0
"""Fusion on accelerators: the same cells as the CPU's, over steps in which sensors come, go and are carried along."""

import numpy as np
import pytest

from benchmarks.occupancy_steps import stacked
from roadbed.config.occupancy import FusionConfig
from roadbed.occupancy.arrays import Cells, Observation, Reports
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.fusion.fuse import RULES, Fusion
from roadbed.occupancy.fusion.fuse_device import FusionDevice
from tests.devices import ACCELERATORS, accelerator

CELLS = Cells(37, 53, 0.5)
SHAPE = (CELLS.rows, CELLS.columns)


@pytest.fixture(scope="module", params=ACCELERATORS)
def device(request):
    return accelerator(request.param)


def uploaded(device, reports):
    sensors, *layers = stacked(reports)
    return Reports(sensors, *(device.upload(layer) for layer in layers))


def fused(fusion, time, reports):
    """The result of a step on the host."""
    device = fusion.backend
    fusion.prepare(time, uploaded(device, reports)).run()
    size = CELLS.rows * CELLS.columns
    return Observation(*(device.download(layer, 0, size).reshape(SHAPE) for layer in fusion.fused))


def random_report(rng):
    """Sure, unsure and unseen cells, some of them at the ends of what a sensor may say."""
    p = np.where(rng.random(SHAPE) < 0.1, rng.choice([0.0, 1.0], SHAPE), rng.random(SHAPE)).astype(np.float32)
    seen = np.where(rng.random(SHAPE) < 0.3, 0, rng.random(SHAPE)).astype(np.float32)
    seen[: rng.integers(0, 20)] = 0  # outside of its field of view
    return Observation(p, seen, rng.integers(0, 2**16, SHAPE).astype(np.uint16))


def random_motion(rng, turning):
    if not turning:
        return GridMotion.rolled(int(rng.integers(-4, 5)), int(rng.integers(-4, 5)), CELLS.spacing)
    turn = rng.normal(0, 0.1)
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    return GridMotion(rotation, rng.normal(0, 1.0, 2), None)


@pytest.mark.parametrize("turning", [False, True], ids=["rolling", "turning"])
@pytest.mark.parametrize("rule", RULES)
def test_every_step_gives_the_cells_of_the_cpu(device, rule, turning):
    """Five sensors at their own rates, of which some fall silent until they are forgotten; new ones need room."""
    rng = np.random.default_rng(RULES[rule])
    config = FusionConfig(rule=rule, reliability={"a": 0.6, "d": 0.9}, forget=0.5)
    ours, theirs = FusionDevice(device, CELLS, config, 0.02), Fusion(CELLS.spacing, config, 0.02)
    for step in range(9):
        motion = random_motion(rng, turning)
        ours.move(motion)
        theirs.move(motion)
        names = rng.choice(list("abcde"), rng.integers(1, 4), replace=False) if step else ["a"]
        reports = {str(name): random_report(rng) for name in names}
        found = fused(ours, 0.1 * step, reports)
        for name, layer in theirs(0.1 * step, stacked(reports))._asdict().items():
            np.testing.assert_array_equal(getattr(found, name), layer, err_msg=f"step {step}: {name}")
    ours.forget()
    alone = {"z": random_report(rng)}
    found = fused(ours, 1.0, alone)
    np.testing.assert_array_equal(found.observedness, alone["z"].observedness)


@pytest.mark.parametrize(
    ("rule", "values", "expected"),
    [
        ("linear", (0.9, 0.1, 0.7), 1.7 / 3),
        ("independent", (0.7, 0.7, 0.7), 0.927),
        ("logarithmic", (0.9, 0.9, 0.9), 0.9),
        ("dempster", (0.9, 0.9, 0.5), 0.988),
    ],
)
def test_vectors(device, rule, values, expected):
    flat = {str(k): Observation(*(np.full(SHAPE, v, np.float32) for v in (p, 1)), np.full(SHAPE, 1 << k, np.uint16))
            for k, p in enumerate(values)}  # fmt: skip
    found = fused(FusionDevice(device, CELLS, FusionConfig(rule=rule), 1e-3), 0.0, flat)
    np.testing.assert_allclose(found.probability, expected, atol=1e-3)
    assert (found.surface == 7).all()


def test_a_sensor_under_many_names_takes_no_more_memory_than_is_stored(device):
    """Names that change with every scan are forgotten, and their place is used again."""
    fusion = FusionDevice(device, CELLS, FusionConfig(forget=0.25))
    rng = np.random.default_rng(0)
    for step in range(12):
        fused(fusion, 0.1 * step, {f"scan {step}": random_report(rng)})
    assert len(fusion.grids()) <= 4
    assert fusion._capacity <= 4
