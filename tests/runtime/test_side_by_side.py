# SPDX-License-Identifier: Apache-2.0
"""Results that lie side by side on a device: neighbours come in one copy, and what was given stays as it was."""

from __future__ import annotations

import numpy as np
import pytest

from roadbed.runtime.packed_outputs import PackedOutputs
from tests.devices import ACCELERATORS, accelerator

PARTS = {"few": (3, np.float32), "flags": (5000, np.uint8), "wide": (2000, np.float32), "last": (6, np.uint16)}
SHAPES = {
    "few": ((3,), np.float32),
    "flags": ((50, 100), np.bool_),
    "wide": ((20, 50), np.float32),  # the first half of it
    "last": ((2, 3), np.uint16),
}
COPIES = [(tuple(PARTS), 1), (("few", "flags", "last"), 2), (("wide",), 1), ((), 0)]


@pytest.fixture(params=ACCELERATORS)
def device(request):
    return accelerator(request.param)


def filled(device, seed):
    """The parts with numbers at random, and what they hold."""
    random, lies = np.random.default_rng(seed), PackedOutputs(device, PARTS)
    held = {name: random.integers(0, 2, count).astype(kind) for name, (count, kind) in PARTS.items()}
    for name, values in held.items():
        device.upload(values, lies[name])
    return lies, held


def brought(device, lies, names):
    """These results on the host, and by how many copies they came."""
    before = device.traffic.downloads
    found = lies.queue(lies.plan({name: SHAPES[name] for name in names}))
    device.finish()
    return found, device.traffic.downloads - before


@pytest.mark.parametrize(("names", "copies"), COPIES)
def test_neighbours_come_in_one_copy(device, names, copies):
    lies, held = filled(device, 1)
    found, made = brought(device, lies, names)
    assert made == copies
    assert set(found) == set(names)
    for name in names:
        shape, kind = SHAPES[name]
        assert (found[name].shape, found[name].dtype) == (shape, kind)
        np.testing.assert_array_equal(found[name].ravel(), held[name][: found[name].size].view(kind))


def test_what_was_brought_stays_as_it_was_when_the_device_goes_on(device):
    lies, held = filled(device, 2)
    found, _ = brought(device, lies, PARTS)
    for name, (count, kind) in PARTS.items():
        device.upload(np.full(count, 7, kind), lies[name])
    later, _ = brought(device, lies, PARTS)
    np.testing.assert_array_equal(found["wide"].ravel(), held["wide"][:1000])
    assert (later["wide"] == 7).all()
