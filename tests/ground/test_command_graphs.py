# SPDX-License-Identifier: Apache-2.0
"""Kernels of a frame that run at the same time: none of them writes what another one uses."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import roadbed.ground.stcrf
from roadbed.config import Config
from roadbed.ground.stcrf.buffers import Buffers
from roadbed.ground.stcrf.command_graphs import CommandGraphs, order_of
from tests.devices import ACCELERATORS, accelerator

SIZES = {"default": 40, "paper": 24}  # m, as in other tests: they share the programs
SOURCES = "\n".join(path.read_text() for path in Path(roadbed.ground.stcrf.__file__).parent.rglob("*.cl"))
KINDS = [(False, 6, False), (True, 3, True), (True, 6, False)]


def parameters(kernel):
    """Per argument of a kernel whether it writes there, as its declaration says."""
    found = re.search(rf"KERNEL(?:_OF_SIZE\(\w+\))? {kernel}\((.*?)\) {{", SOURCES, re.DOTALL)
    declared = [text.strip() for text in found[1].split(",")]
    return [text.startswith("GLOBAL") and not text.startswith("GLOBAL const") for text in declared]


def used(launch):
    """The buffers that a launch reads, and those that it writes."""
    written = parameters(launch.kernel)
    assert len(written) == len(launch.arguments)
    if launch.kernel == "iterate" and not launch.arguments[-1]:
        written[9:11] = [False, False]  # the surface is described by the last iteration alone
    buffers = [(id(a), w) for a, w in zip(launch.arguments, written) if not isinstance(a, np.generic)]
    return {buffer for buffer, _ in buffers}, {buffer for buffer, writes in buffers if writes}


def waits_for(order, phase):
    """All phases that have ended when this one begins."""
    return set(order[phase]).union(*(waits_for(order, before) for before in order[phase]))


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ACCELERATORS)
def test_phases_at_the_same_time_share_nothing_that_one_writes(name, preset, kind):
    size = {"length": SIZES[preset], "width": SIZES[preset]}
    config = Config.preset(preset).with_changes(ground={"stcrf": size})
    backend = accelerator(name, optimise=False)
    launches = CommandGraphs(backend, config, Buffers(backend, config, 1))._after_sort(*kind)
    order = order_of(launches)
    assert list(order) == list(dict.fromkeys(launch.phase or launch.kernel for launch in launches))
    before = {phase: waits_for(order, phase) for phase in order}
    beside = 0
    for one, other in combinations(launches, 2):
        first, second = (launch.phase or launch.kernel for launch in (one, other))
        if first == second or first in before[second]:
            continue
        assert second not in before[first]
        (reads, writes), (other_reads, other_writes) = used(one), used(other)
        assert not writes & (other_reads | other_writes), f"{one.kernel} and {other.kernel}"
        assert not other_writes & (reads | writes), f"{one.kernel} and {other.kernel}"
        beside += 1
    assert (beside > 0) == (preset == "default")
    last = launches[-1].phase or launches[-1].kernel
    assert before[last] == set(order) - {last}
