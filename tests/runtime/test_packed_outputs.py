# SPDX-License-Identifier: Apache-2.0
"""Packed outputs: neighbours are copied together, and arrays that were returned are not written again."""

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
    """Packed outputs with random content, and the content."""
    random, packed = np.random.default_rng(seed), PackedOutputs(device, PARTS)
    held = {name: random.integers(0, 2, count).astype(kind) for name, (count, kind) in PARTS.items()}
    for name, values in held.items():
        device.upload(values, packed[name])
    return packed, held


def downloaded(device, packed, names):
    """These outputs on the host, and the number of copies."""
    before = device.traffic.downloads
    found = packed.queue(packed.plan({name: SHAPES[name] for name in names}))
    device.finish()
    return found, device.traffic.downloads - before


@pytest.mark.parametrize(("names", "copies"), COPIES)
def test_neighbours_are_copied_together(device, names, copies):
    packed, held = filled(device, 1)
    found, made = downloaded(device, packed, names)
    assert made == copies
    assert set(found) == set(names)
    for name in names:
        shape, kind = SHAPES[name]
        assert (found[name].shape, found[name].dtype) == (shape, kind)
        np.testing.assert_array_equal(found[name].ravel(), held[name][: found[name].size].view(kind))


def test_returned_arrays_do_not_change_when_the_device_writes_again(device):
    packed, held = filled(device, 2)
    found, _ = downloaded(device, packed, PARTS)
    for name, (count, kind) in PARTS.items():
        device.upload(np.full(count, 7, kind), packed[name])
    later, _ = downloaded(device, packed, PARTS)
    np.testing.assert_array_equal(found["wide"].ravel(), held["wide"][:1000])
    assert (later["wide"] == 7).all()
