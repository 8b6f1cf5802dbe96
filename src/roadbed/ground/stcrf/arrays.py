# SPDX-License-Identifier: Apache-2.0
"""Arrays that the CPU's kernels pass on together. x and y of points count from their node, heights from the base."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32

Int32 = NDArray[np.int32]


class Shape(NamedTuple):
    """A lattice."""

    rows: int
    columns: int
    spacing: np.float32  # m


class ActiveNodes(NamedTuple):
    """The nodes of a lattice on which something happens, in order: those of row r are row[r] to row[r + 1]."""

    nodes: Int32  # (nodes,) the first row[-1] of them
    row: Int32  # (rows + 1,)

    @classmethod
    def none(cls, rows: int, columns: int) -> ActiveNodes:
        """An empty list with room for all."""
        return cls(np.zeros(rows * columns, np.int32), np.zeros(rows + 1, np.int32))


class Runs(NamedTuple):
    """Points of a scan that follow each other on one node, and so in the order of the nodes: at most a vector of them,
    of the scan's whole vectors, so that one is moved without a loop whose end cannot be foretold.

    Those of slice s of the scan begin s after the number of its first point: after its last run stands where it ends.
    """

    first: Int32  # (N + slices,) point with which a run begins; after the last run, with which no more does
    node: Int32  # (N + slices,)
    place: Int32  # (N + slices,) of that point in the order of the nodes
    of_block: Int32  # (blocks,) the run with which each block of the scan begins

    @classmethod
    def of(cls, points: int, slices: int, block: int) -> Runs:
        """Room for those of so many points."""
        first, node, place = np.empty((3, points + slices), np.int32)
        return cls(first, node, place, np.empty(-(-points // block), np.int32))


class SortedPoints(NamedTuple):
    """A scan in the order of its nodes: those of node c are start[c] to start[c + 1]."""

    start: Int32  # (nodes + 1,)
    x: Float32
    y: Float32
    z: Float32
    pillar: NDArray[np.uint16]  # which pillar of its node, and marks, see `select_cpu`
    mark: NDArray[np.uint8]  # NON_GROUND, ISOLATED, see model.py
    runs: Runs  # of input points; the node after the last is that of points on none
    listed: ActiveNodes  # nodes that have points


class ShapingPoints(NamedTuple):
    """The points that shape a lattice's surface: those of node c are reserved[c] to reserved[c] + length[c].

    Both are defined for listed nodes only; `reserved` also where a row begins.
    """

    reserved: Int32  # (nodes + 1,)
    length: Int32  # (nodes,)
    x: Float32
    y: Float32
    z: Float32
    listed: ActiveNodes  # no other node has such points


class ActiveColumns(NamedTuple):
    """Per row the columns worth computing, counted with the border; `wide` also covers the rows beside."""

    lo: Int32
    hi: Int32
    wide_lo: Int32
    wide_hi: Int32


class Moving(NamedTuple):
    """Cells that move: a mask [y][x] (empty: none), its corner and its cells per metre."""

    mask: NDArray[np.bool_]
    corner: Float32
    scale: np.float32


class Outputs(NamedTuple):
    """One of each per input point."""

    label: NDArray[np.uint8]
    probability: Float32
    height: Float32


class Field:
    """Information and planes of one lattice, with a border of empty nodes. See `em_cpu` for the layout."""

    def __init__(self, rows: int, columns: int, spacing: float, chunks: int, room: int) -> None:
        self.shape = Shape(rows, columns, np.float32(spacing))
        stride = columns + 2 + 2 * room  # spans of rows, and of three rows together, end at whole vectors
        padded = (rows + 2, 9, stride)
        self.information = np.zeros((2, *padded), np.float32)  # P, X: the two Jacobi buffers
        self.prior = np.zeros(padded, np.float32)  # P, X of the previous frame
        self.prior_mean = np.zeros((rows + 2, 3, stride), np.float32)
        self.data = np.zeros(padded, np.float32)
        self.expected = np.zeros((rows + 2, 3, stride), np.float32)  # plane that the weak prior pulls to
        self.mean = np.zeros((rows + 2, 3, stride), np.float32)  # mu = (h, sx, sy)
        self.reserved = np.zeros(rows * columns + 1, np.int32)
        self.count = np.zeros(rows * columns, np.int32)
        ends = (np.zeros(size, np.int32) for size in (rows, rows, rows + 2, rows + 2))
        self.spans = ActiveColumns(*ends)
        # Columns [lo, hi) of each row where `information`, `prior` and `data` are not zero.
        self.written, self.prior_ends, self.data_ends = np.zeros((3, 2, rows), np.int32)
        self._chunks = np.zeros(chunks + 1, np.int32)
        self.row_chunks = self._chunks  # ranges of rows that cost about the same
        self.row_sums = np.zeros((chunks, 3, 9, stride), np.float32)
        self.result = 0  # which buffer of `information` is the posterior

    @property
    def posterior(self) -> Float32:
        return self.information[self.result]

    def cut(self, alone: bool) -> None:
        """Rows are to be one range where one thread works `alone`: each computes sums of its neighbours' rows again."""
        self.row_chunks = self._chunks[:2] if alone else self._chunks

    def take_prior(self) -> None:
        """What was written to the spare buffers (data, expected) becomes the prior."""
        self.prior, self.data = self.data, self.prior
        self.prior_ends, self.data_ends = self.data_ends, self.prior_ends
        self.prior_mean, self.expected = self.expected, self.prior_mean
