# SPDX-License-Identifier: Apache-2.0
"""Machine code looked up once: for every type of an array from elsewhere its own, and always the code that Numba
would take."""

from dataclasses import replace

import numpy as np
import pytest

import roadbed
from roadbed.config import Config
from roadbed.core.geometry import Grid
from roadbed.kernels.entrance import Entrances, types_of
from roadbed.kernels.jit import njit


@njit()
def weigh(values, weights):
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i, 0] * weights[0][i]
    return total


def test_every_type_of_an_array_has_code_of_its_own():
    enter, weights = Entrances(), (np.arange(1.0, 4.0),)
    values = np.arange(18.0).reshape(3, 6)
    frozen = values[:, :2].copy()
    frozen.setflags(write=False)
    kinds = values, values[:, ::2], values[:, :3], np.asfortranarray(values), values.astype(np.float32), frozen
    for _ in range(3):  # looked up, then known
        for array in kinds:
            assert enter(weigh, array)(array, weights) == (array[:, 0] * weights[0]).sum()
    assert len({id(enter(weigh, array)) for array in kinds}) == 5  # two of them are the same type


def test_what_is_known_does_not_ask_numba_again():
    enter, array, weights = Entrances(), np.ones((3, 2)), (np.ones(3),)
    enter(weigh, array)(array, weights)
    (compiled,) = [one for one in weigh.overloads.values() if one.entry_point is enter(weigh, array)]
    assert compiled.signature.args == types_of(weigh, (array, weights))


class CheckedEntrances(Entrances):
    """Refuses a call whose arguments have other types than the code was looked up for."""

    calls = 0

    def __call__(self, kernel, *from_elsewhere):
        found = super().__call__(kernel, *from_elsewhere)

        def checked(*arguments):
            if any(found is one.entry_point for one in kernel.overloads.values()):
                CheckedEntrances.calls += 1
                compiled = kernel.overloads.get(types_of(kernel, arguments))
                assert compiled is not None, f"{kernel.py_func.__name__}: nothing for {types_of(kernel, arguments)}"
                assert found is compiled.entry_point, kernel.py_func.__name__
            return found(*arguments)

        checked.overloads = getattr(found, "overloads", True)
        return checked


def scans():
    """Whatever changes the types or the layout of what the ground's kernels are given."""
    source = roadbed.open("sim:city?sensor=lux4&frames=3")
    drive = [source[k] for k in range(3)]
    yield from drive  # over time
    first = replace(drive[0], T_world_sensor=None)
    yield from (first, first)
    frozen = first.points.copy()
    frozen.setflags(write=False)
    yield replace(first, points=frozen)
    for count in (0, 1, 2, 9):
        yield replace(first.part(slice(0, count)), mounts=())
    yield replace(roadbed.open("sim:city?sensor=vlp16&frames=1")[0], T_world_sensor=None)


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_the_ground_calls_the_code_that_numba_would_take(preset, monkeypatch):
    from roadbed.ground.stcrf import cpu
    from roadbed.ground.stcrf.em import em_cpu
    from roadbed.ground.stcrf.start import coarse_cpu
    from roadbed.ground.visibility import cpu as opacity

    for module in (cpu, coarse_cpu):
        monkeypatch.setattr(module, "Entrances", CheckedEntrances)
    for module in (opacity, em_cpu):
        monkeypatch.setattr(module, "_enter", CheckedEntrances())
    CheckedEntrances.calls = 0
    config = Config() if preset == "default" else Config.preset("paper")
    body = {"front": 9, "rear": -9, "left": 2, "right": -2}
    small = {"ground": {"stcrf": {"length": 8.0, "width": 8.0}}, "vehicle": {"body": body}}
    moving = Grid.centred(10, 10, 1.0), np.zeros((10, 10), np.bool_)
    for whole in (config, config.with_changes(**small)):
        ground = roadbed.GroundFilter(whole)
        for number, scan in enumerate(scans()):
            ground(scan, moving=moving if number % 2 else None)
    assert CheckedEntrances.calls > 150
