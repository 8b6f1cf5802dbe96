# SPDX-License-Identifier: Apache-2.0
"""Constants that several stages of the occupancy share; each stage has a `model.py` for its own.

CPU kernels import the names; device kernels get the same names as definitions.
"""

SUBCELLS = 4  # per side of a cell; its 16 subcells are the bits of a uint16
HITS_IN_CELL = 0xFFFF  # these bits
HIT = 0.5  # a larger probability of a cell: it is occupied
CLEAR = 0.3  # a smaller probability: it is free, where it was observed
OBSERVED = 0.5  # observedness above which it was
