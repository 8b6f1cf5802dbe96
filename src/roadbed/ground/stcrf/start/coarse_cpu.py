# SPDX-License-Identifier: Apache-2.0
"""The coarse start on the CPU: the EM on coarse nodes, from the surface of the last frame or from a level one."""

from functools import cache, partial

import numpy as np

from roadbed.config.ground import GroundConfig
from roadbed.core.geometry import Float32
from roadbed.ground.engine import Vehicle
from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.arrays import ActiveColumns, ActiveNodes, Field, Shape, ShapingPoints, SortedPoints
from roadbed.ground.stcrf.em.em_cpu import EmRules, em_rules, run_em
from roadbed.ground.stcrf.points.active_columns_cpu import CHUNKS, VECTOR, clear_outside
from roadbed.ground.stcrf.points.select_cpu import PAD
from roadbed.ground.stcrf.sizes import low_side_of, ratio_of, reach_of
from roadbed.ground.stcrf.start.slope_start_cpu import (
    count_explained,
    expect_envelope,
    find_heights,
    lower_envelope,
    may_be_better,
    slope_arrays,
    take_better,
)  # fmt: skip
from roadbed.ground.stcrf.start.start_cpu import begin_coarse, blend_coarse, expect_carried, start_level
from roadbed.kernels.parallel import parallel_for

F = np.float32


class CoarseStart:
    """`low` holds the lowest points of fine nodes; `find` computes coarse planes, `to_fine` expected fine planes."""

    def __init__(self, config: GroundConfig, fine: Shape) -> None:
        self._config, self._fine, self._ratio = config, fine, ratio_of(config)
        shape = -(-fine.rows // self._ratio), -(-fine.columns // self._ratio)
        spacing = config.stcrf.spacing * self._ratio
        self._level, self._sloped = (Field(*shape, spacing, CHUNKS, VECTOR) for _ in range(2))
        self._rules = cache(partial(_rules, config))
        self._slope_arrays = slope_arrays(*shape)
        self.low = np.zeros((fine.rows * fine.columns, low_side_of(config) ** 2, 3), F)
        x, y, z = np.zeros((3, self.low[..., 0].size + PAD * shape[0] * shape[1]), F)
        self._lowest = ShapingPoints(self._level.reserved, self._level.count, x, y, z, ActiveNodes.none(*shape))

    def find(
        self, points: SortedPoints, vehicle: Vehicle, road: float, carried: Float32 | None, single_thread: bool = False
    ) -> None:
        """Coarse planes through the lowest points, from the planes carried with the prior or level at height `road`."""
        level, lowest = self._level, self._lowest
        level.cut(single_thread)
        field = level.shape, level.information, level.active_columns, level.written, level.row_chunks
        lattice = self._fine, self._ratio, reach_of(self._config)
        begin_coarse(points, self.low, *lattice, field, lowest, self._slope_arrays.counts[0])
        if carried is not None:
            expect_carried(carried, self._fine, self._ratio, level.shape, level.mean, level.expected)
            run_em(level, lowest, self._rules(model.COARSE_WARM_ITERATIONS, model.COARSE_SIGMA_UP), single_thread)
            return
        start_level(F(road), level.active_columns, level.expected, level.mean)
        run_em(level, lowest, self._rules(model.COARSE_ITERATIONS, model.COARSE_SIGMA_UP), single_thread)
        if self._config.uses("slope_aware_start"):
            self._slope_start(vehicle, road, single_thread)

    def to_fine(
        self, active_columns: ActiveColumns, before: Float32, expected: Float32, grain: int, inside: bool = True
    ) -> None:
        """The expected planes of fine nodes inside of the active columns, or of the others; where coarse nodes know
        nothing, the planes `before`. `grain`: rows per thread.
        """
        level, (rows, columns, _) = self._level, self._fine
        coarse = level.posterior, level.mean, level.active_columns, level.shape
        given = coarse, self._ratio, columns, active_columns, inside, before, expected
        parallel_for(blend_coarse, rows, *given, grain=grain)

    def _slope_start(self, vehicle: Vehicle, road: float, single_thread: bool) -> None:
        """The second coarse start, for hillsides; it replaces the first where it explains clearly more points."""
        level, sloped, lowest = self._level, self._sloped, self._lowest
        shape, (heights, counts, sums) = level.shape, self._slope_arrays
        count_explained(lowest, level.mean, shape, counts[1])
        if not may_be_better(counts, sums):
            return
        slope = F(self._config.stcrf.slope_limit)
        find_heights(lowest, shape, F(vehicle.x), F(vehicle.y), F(road), heights[0])
        lower_envelope(heights, slope, shape)
        expect_envelope(heights[0], F(road), slope, shape, sloped.expected)
        for own, ends in zip(sloped.active_columns, level.active_columns):
            own[:] = ends
        clear_outside(sloped.information, sloped.written, sloped.active_columns)
        sloped.row_chunks = level.row_chunks
        rules = self._rules(model.SLOPE_ITERATIONS, model.SLOPE_SIGMA_UP, model.STEEP_NEIGHBOURS)
        run_em(sloped, lowest, rules, single_thread)
        count_explained(lowest, sloped.mean, shape, counts[2])
        take_better(counts, sums, sloped.posterior, sloped.mean, level.posterior, level.mean)


def _rules(config: GroundConfig, iterations: int, sigma_up: float, steep_neighbours: float = 1.0) -> EmRules:
    ratio = ratio_of(config)
    return em_rules(
        config.stcrf,
        iterations=iterations,
        from_prior=False,
        gamma=F(0),
        sigma_up_early=F(sigma_up),
        sigma_up=F(sigma_up),
        steep_neighbours=F(steep_neighbours),
        pull=F(model.PULL_WEIGHT if config.uses("pull_to_drops") else 0),
        height_information=F(model.HEIGHT_WEIGHT),
        # A coarse node has a longer lever arm, with which the information of its slope grows.
        slope_information=F(model.SLOPE_WEIGHT * (ratio**2 / 4 if ratio > 1 else 1)),
    )
