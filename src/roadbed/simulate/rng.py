# SPDX-License-Identifier: Apache-2.0
"""Counter-based random numbers: each draw is a function of its key, so neither order nor thread count matters."""

import math

import numpy as np

from roadbed.kernels.jit import inlined, njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_TO_UNIT = 1.0 / 9007199254740992.0  # 2^-53


@inlined()
def _mix(state):
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))


@njit(cache=True)
def make_key(seed, stream, counter):
    """A 64-bit key from three integers; keys of different triples are unrelated."""
    key = _mix(np.uint64(seed) + _GOLDEN)
    key = _mix(key ^ (np.uint64(stream) * _GOLDEN + _MIX_1))
    return _mix(key ^ (np.uint64(counter) * _GOLDEN + _MIX_2))


@inlined()
def uniform(key, draw):
    """A number in [0, 1); `draw` numbers the draws made with one key."""
    bits = _mix(key + np.uint64(draw + 1) * _GOLDEN)
    return np.float64(bits >> np.uint64(11)) * _TO_UNIT


@inlined()
def normal(key, draw):
    """A standard normal number; uses up draws `draw` and `draw + 1`."""
    radius = math.sqrt(-2.0 * math.log(1.0 - uniform(key, draw)))
    return radius * math.cos(2.0 * math.pi * uniform(key, draw + 1))


class RandomStream:
    """Draws in sequence from one key, for building scenes."""

    def __init__(self, seed: int, stream: int, counter: int = 0) -> None:
        self._key = np.uint64(make_key(seed, stream, counter))
        self._draws = 0

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        self._draws += 1
        return low + (high - low) * float(_uniform(self._key, self._draws))

    def bernoulli(self, probability: float) -> bool:
        return self.uniform() < probability


@njit(cache=True)
def _uniform(key, draw):
    return uniform(key, draw)


@njit(cache=True)
def gaussian(key, draw):
    """As `normal`, for callers that are not compiled."""
    return normal(key, draw)
