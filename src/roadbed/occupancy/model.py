# SPDX-License-Identifier: Apache-2.0
"""Every number that the occupancy's kernels share, each written once.

CPU kernels import the names below; device kernels get the same names as definitions, floats as float32.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

# Streams of random numbers: they keep the draws of different steps apart.
PROPAGATE, BIRTH_PLACE, BIRTH_VELOCITY, BIRTH_TRAFFIC, BIRTH_SEED, BIRTH_SEED_SPREAD, SYSTEMATIC = range(7)

# Observation of one sensor.
SUBCELLS = 4  # per side of a cell; its 16 subcells are the bits of a uint16
NO_BEAM = np.float32(1e9)  # slope of the polar table where none passed
FAR_ABOVE = 50.0  # m, a beam this high over a cell says nothing
SOFT_SIGMAS = 3.0  # below the obstacle height where a return's weight begins
SURE_SIGMAS = 12.0  # above it from where a return weighs WEIGHT_ONE, as exp(-12) < 0.5 / WEIGHT_ONE
WEIGHT_ONE = 1 << 15  # weights of returns are whole numbers, so that their sum does not depend on their order
MARKING_WEIGHT = WEIGHT_ONE // 2  # of a return that marks its subcell as surface
MOST_WEIGHT = 128 * WEIGHT_ONE  # of a cell from which nothing is added: evidence saturates at 100 returns at most
MIXED_HITS = 0.5  # weight of the returns in a cell from which beams that pass it count less
LEAST_ODDS, LEAST_SEEN = 1e-6, 1e-6  # smaller than this is nothing
NOBODYS = 255  # sensor of a point that none of them counts

# Fusion of the sensors.
LINEAR, INDEPENDENT, LOGARITHMIC, DEMPSTER = range(4)
NO_OPINION = 1e-3  # total weight under which a cell stays at 0.5
FULL_CONFLICT = 0.9  # beyond this Dempster's rule is not normalised: the conflict becomes ignorance

# What an observation says of a cell.
HIT = 0.5  # a larger probability: something is there
CLEAR = 0.3  # a smaller probability: nothing is, where it was watched
WATCHED = 0.5  # observedness above which that is meant

# Pictures of a scan for registration: per cell the subcells beams returned from, those beside them, whether it is free.
HITS_IN_CELL = 0xFFFF  # the subcells' bits
NEAR_SHIFT = 16  # from a subcell's bit to the bit that says that it or one beside it returned a beam
FREE_BIT = 32  # of a cell that was watched and is free

FEWEST_POINTS = 5  # hit subcells that a component needs to be registered
COARSE_LOSS = 0.25  # of agreement that a shift may lack by lying one subcell aside
PARTNER_GROWTH = 1.3  # what it is laid over may be longer than itself by this factor
STANDING = 0.25  # of a component's cells that have been static for long: it stands, or has just started
REACH_PER_EXTENT, REACH_LEAST = 1.5, 0.4  # shifts are sought up to this many times its extent, and so many metres more

# Masses of a cell.
ODDS, STATIC_FIRST, NORMALISE = range(3)
CEILING = 0.999  # no mass becomes absorbing
ARRIVAL_CEILING = 0.98
NOTHING_LEFT = 1e-12
PROBABLY_FREE = 0.55  # free mass of a cell that was free and is not seen: its occupancy is above 0.2
WAS_EMPTY = 0.5  # free mass above which a cell was empty
MATURING = 0.6  # static mass above which a cell that is hit grows older
OLDEST = 10.0  # s
LONGEST_FREE = 10.0  # s
BESIDE_REACH, BESIDE_CELLS, BESIDE_MASS = 2, 3, 0.5  # cells around one, of which so many have so much dynamic mass
SURFACE_REACH = 2  # subcells around a particle in which a return is sought
NO_SURFACE = 1e9  # squared distance to a return where there is none

# Particles.
RATE_STEP = 0.1  # s; the rates of the configuration are per this time
LEAST_MASS = 1e-3  # below it a cell has no velocity
LEAST_WEIGHT = 1e-6  # of a particle against the others of its cell, so that weights never sum to zero
LEAST_VARIANCE = 1e-4  # m^2/s^2
STANDSTILL_VARIANCE = 0.01  # m^2/s^2 added before asking whether a velocity differs from zero
ALIKE_REACH = 2  # cells around one in which others must move the same way
ALIKE = 0.5  # square of the share by which velocities of neighbours may differ
SEED_MASS = 0.2  # a neighbour with at least this much persistent mass passes its velocity on
SEED_ATTEMPTS = 4

# Systematic draws, in whole numbers.
MASS_UNIT = 2.0**38  # units of a mass of 1; the masses of 2^25 full cells still fit in 63 bits
OFFSET_BITS = 25  # of the chance by which the first draw lies within its step
OFFSET_SPLIT = 20  # bits of a step that are multiplied by it apart, so that no product overflows

# Objects.
SIDE_FLOOR = 0.05  # m; a point this near to a side of a box lies on it

_NUMBERS = (int, float, np.number)
CONSTANTS = MappingProxyType({name: n for name, n in globals().items() if name[0] != "_" and isinstance(n, _NUMBERS)})
