# SPDX-License-Identifier: Apache-2.0
"""Arrays of the CPU kernels. x and y of points are relative to their node, heights to the base height."""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from roadbed.core.geometry import Float32

Int32 = NDArray[np.int32]


class Shape(NamedTuple):
    """Size of a lattice."""

    rows: int
    columns: int
    spacing: np.float32  # m


class ActiveNodes(NamedTuple):
    """Nodes of a lattice with points, in order: those of row r are nodes[row[r]:row[r + 1]]."""

    nodes: Int32  # (nodes,) of which the first row[-1] are used
    row: Int32  # (rows + 1,)

    @classmethod
    def none(cls, rows: int, columns: int) -> Self:
        """An empty list with room for all nodes."""
        return cls(np.zeros(rows * columns, np.int32), np.zeros(rows + 1, np.int32))


class Runs(NamedTuple):
    """Runs of consecutive points of a scan on one node, at most LANES points each: one vector copy moves a run.

    The runs of slice s of the scan begin at index (first point of the slice) + s; behind the last run is one end mark.
    """

    first: Int32  # (N + slices,) first point of each run; in the end mark, the end of the slice
    node: Int32  # (N + slices,)
    position: Int32  # (N + slices,) of the run's first point in the scan sorted by node
    of_block: Int32  # (blocks,) first run of each block of the scan

    @classmethod
    def of(cls, points: int, slices: int, block: int) -> Self:
        """Arrays for the runs of `points` points."""
        first, node, position = np.empty((3, points + slices), np.int32)
        return cls(first, node, position, np.empty(-(-points // block), np.int32))


class SortedPoints(NamedTuple):
    """A scan sorted by node: the points of node c are start[c] to start[c + 1]."""

    start: Int32  # (nodes + 1,)
    x: Float32
    y: Float32
    z: Float32
    pillar: NDArray[np.uint16]  # pillar number inside the node, and mark bits (`select_cpu`)
    mark: NDArray[np.uint8]  # NON_GROUND, ISOLATED, see model.py; (0,): no point has one
    runs: Runs  # of input points; points outside of the lattice have the node number `nodes`
    active_nodes: ActiveNodes


class ShapingPoints(NamedTuple):
    """The points that shape a lattice's surface: those of node c are reserved[c] to reserved[c] + length[c].

    Both are defined for active nodes only; `reserved` also for the first node of each row.
    """

    reserved: Int32  # (nodes + 1,)
    length: Int32  # (nodes,)
    x: Float32
    y: Float32
    z: Float32
    active_nodes: ActiveNodes  # the nodes with such points


class ActiveColumns(NamedTuple):
    """Per row the range of columns [lo, hi) to compute, counted with the border; `wide` also covers both next rows."""

    lo: Int32
    hi: Int32
    wide_lo: Int32
    wide_hi: Int32


class Moving(NamedTuple):
    """Mask of moving cells [y][x] (empty: none), its corner, m, and its cells per metre."""

    mask: NDArray[np.bool_]
    corner: Float32
    scale: np.float32


class Outputs(NamedTuple):
    """Results per input point."""

    label: NDArray[np.uint8]
    probability: Float32
    height: Float32

    @classmethod
    def of(cls, points: int) -> Self:
        """Arrays for the results of `points` points."""
        return cls(np.empty(points, np.uint8), np.empty(points, np.float32), np.empty(points, np.float32))


class Field:
    """Information and planes of one lattice with a border of empty nodes; `em_cpu` describes the layout."""

    def __init__(self, rows: int, columns: int, spacing: float, chunks: int, room: int) -> None:
        self.shape = Shape(rows, columns, np.float32(spacing))
        stride = columns + 2 + 2 * room  # active columns, also of three rows together, are padded to whole vectors
        padded = (rows + 2, 9, stride)
        self.information = np.zeros((2, *padded), np.float32)  # P, X: the two Jacobi buffers
        self.prior = np.zeros(padded, np.float32)  # P, X of the previous frame
        self.prior_mean = np.zeros((rows + 2, 3, stride), np.float32)
        self.data = np.zeros(padded, np.float32)
        self.expected = np.zeros((rows + 2, 3, stride), np.float32)  # plane of the weak prior
        self.mean = np.zeros((rows + 2, 3, stride), np.float32)  # mu = (h, sx, sy)
        self.reserved = np.zeros(rows * columns + 1, np.int32)
        self.count = np.zeros(rows * columns, np.int32)
        ends = (np.zeros(size, np.int32) for size in (rows, rows, rows + 2, rows + 2))
        self.active_columns = ActiveColumns(*ends)
        # Columns [lo, hi) of each row where `information`, `prior` and `data` are not zero.
        self.written, self.prior_ends, self.data_ends = np.zeros((3, 2, rows), np.int32)
        self._chunks = np.zeros(chunks + 1, np.int32)
        self.row_chunks = self._chunks  # ranges of rows of about equal cost
        self.row_sums = np.zeros((chunks, 3, 9, stride), np.float32)
        self.result = 0  # which buffer of `information` is the posterior

    @property
    def posterior(self) -> Float32:
        return self.information[self.result]

    def cut(self, single_thread: bool) -> None:
        """Use one range of rows for a single thread: every range computes the sums of its neighbouring rows again."""
        self.row_chunks = self._chunks[:2] if single_thread else self._chunks

    def take_prior(self) -> None:
        """Swap buffers: `data` and `expected`, to which the moved prior was written, become the prior."""
        self.prior, self.data = self.data, self.prior
        self.prior_ends, self.data_ends = self.data_ends, self.prior_ends
        self.prior_mean, self.expected = self.expected, self.prior_mean
