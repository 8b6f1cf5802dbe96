# SPDX-License-Identifier: Apache-2.0
"""Random numbers: the published vectors, their distributions, and the same numbers on the CPU and every accelerator."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from roadbed.runtime import philox, philox_cpu
from roadbed.runtime.graphs import Launch
from tests.devices import ACCELERATORS, accelerator
from tests.runtime.inline_program import InlineProgram

EXAMPLES = settings(max_examples=15, deadline=None)
word = st.integers(0, 2**32 - 1)
# Of seed, frame and stream 0: draws that hold a word of zeros, or of ones, where Box-Muller takes its logarithm.
ZEROS, ONES = 3230741590, 2024541361

DRAW = """
KERNEL draw_{name}(GLOBAL {type} *numbers, uint first, int count, uint seed, uint frame, uint stream) {{
    for (int i = GLOBAL_ID; i < count; i += GLOBAL_SIZE) numbers[i] = {function}(seed, frame, stream, first + (uint)i);
}}
"""
KERNELS = (("words", "uint4", "random_words"), ("uniforms", "float4", "uniforms"), ("normals", "float4", "normals"))
PROGRAM = InlineProgram(
    ("runtime/philox.cl",),
    philox.DEFINITIONS,
    exact=True,  # logarithms, sines and cosines as on the CPU
    kernels="".join(DRAW.format(name=name, type=type_, function=function) for name, type_, function in KERNELS),
)


@njit
def words(c0, c1, c2, c3, k0, k1):
    return philox_cpu.philox(c0, c1, c2, c3, k0, k1)


@njit
def draw(seed, frame, stream, first, count):
    """What the CPU draws: words, uniforms, normals."""
    whole, uniform, normal = (
        np.empty((count, 4), np.uint32),
        np.empty((count, 4), np.float32),
        np.empty((count, 4), np.float32),
    )
    for i in range(count):
        whole[i] = philox_cpu.random_words(seed, frame, stream, first + i)
        uniform[i] = philox_cpu.uniforms(seed, frame, stream, first + i)
        normal[i] = philox_cpu.normals(seed, frame, stream, first + i)
    return whole, uniform, normal


def draw_on(device, seed, frame, stream, first, count):
    """What an accelerator draws."""
    found = []
    for kind, dtype in (("words", np.uint32), ("uniforms", np.float32), ("normals", np.float32)):
        out = device.output((1, 4 * count), dtype)
        numbers = (np.uint32(first), np.int32(count), np.uint32(seed), np.uint32(frame), np.uint32(stream))
        device.graph(program(device), [Launch(f"draw_{kind}", 4, 256, (out.buffer, *numbers))]).run()
        device.fetch(out, 0, 4 * count)
        device.finish()
        found.append(out.host[0].reshape(count, 4).copy())
    return found


@cache
def program(device):
    return device.build(PROGRAM)


@pytest.fixture(scope="module", params=ACCELERATORS)
def device(request):
    return accelerator(request.param)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter, key, expected):
    """The vectors of the authors' distribution (Random123, kat_vectors)."""
    assert tuple(int(w) for w in words(*(np.uint64(v) for v in (*counter, *key)))) == expected


def test_distributions():
    _, uniform, normal = draw(7, 3, 1, 0, 20_000)
    assert uniform.mean() == pytest.approx(0.5, abs=0.005)
    assert normal.mean(axis=0) == pytest.approx(np.zeros(4), abs=0.03)
    assert normal.std(axis=0) == pytest.approx(np.ones(4), abs=0.02)
    assert np.abs(np.corrcoef(normal.T) - np.eye(4)).max() < 0.03


def test_streams_frames_and_seeds_are_different_draws():
    first = draw(1, 2, 3, 0, 8)[0]
    for other in (draw(2, 2, 3, 0, 8), draw(1, 3, 3, 0, 8), draw(1, 2, 4, 0, 8), draw(1, 2, 3, 8, 8)):
        assert not np.isin(other[0], first).any()


def test_uniform_numbers_lie_strictly_between_zero_and_one():
    for index, extreme in ((ZEROS, 0), (ONES, 2**32 - 1)):
        whole, uniform, normal = draw(0, 0, 0, index, 1)
        assert whole[0, 2] == extreme
        assert (uniform > 0).all()
        assert (uniform < 1).all()
        assert np.isfinite(normal).all()


def same_on_cpu_and(device, seed, frame, stream, first, count):
    expected, found = draw(seed, frame, stream, first, count), draw_on(device, seed, frame, stream, first, count)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1].view(np.uint32), expected[1].view(np.uint32))
    # An angle's cosine is right to some bits of 1 everywhere; where it nears 0 its own last bits are fewer.
    few = 4 * np.spacing(np.maximum(np.abs(expected[2]), np.float32(1)))
    assert (np.abs(found[2] - expected[2]) <= few).all()


@EXAMPLES
@given(seed=word, frame=word, stream=word)
def test_every_accelerator_draws_what_the_cpu_draws(device, seed, frame, stream):
    same_on_cpu_and(device, seed, frame, stream, 0, 1000)


@pytest.mark.parametrize("first", [2**24 - 2, 2**31 - 2, 2**32 - 5, ZEROS, ONES])
def test_far_draws_and_extreme_words_are_the_same_on_every_accelerator(device, first):
    same_on_cpu_and(device, 0, 0, 0, first, 5)
