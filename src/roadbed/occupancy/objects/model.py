# SPDX-License-Identifier: Apache-2.0
"""How moving cells become objects, and how objects are tracked: the constants, in the form the kernels take."""

from typing import NamedTuple, Self

from roadbed.config.occupancy import OccupancyConfig

_JOIN = 0.4  # m; moving cells this near belong to one object


class ClusterRule(NamedTuple):
    """Which cells make a cluster."""

    reach: int  # cells
    min_cells: int
    body_length: float  # m; parts that make up more are several bodies
    body_width: float
    keep: float  # s
    body_gap: float = 4.0  # m between parts of one body that move alike: the cab and the rear wheels of a lorry

    @classmethod
    def of(cls, config: OccupancyConfig, spacing: float) -> Self:
        objects = config.objects
        size = objects.body_length, objects.body_width
        rule = cls(max(1, round(_JOIN / spacing)), objects.min_cells, *size, objects.keep)
        return rule._replace(body_gap=0.0) if "join_bodies" in config.without else rule


class TrackRule(NamedTuple):
    """How objects are tracked."""

    keep: float  # s an object is remembered without being seen
    min_cells: int  # of a new object
    vehicle_length: float  # m, at least, of a vehicle seen from one end; 0: as it is seen
    vehicle_width: float  # m, at least, of one seen from one side; 0: as it is seen
    gate: float = 2.0  # m around the prediction in which an object is found again
    lag: float = 0.1  # s by which the cells' velocities are late
    velocity_variance: float = 0.6**2  # m^2/s^2, common error of the cells of an object of 20

    @classmethod
    def of(cls, config: OccupancyConfig) -> Self:
        objects, without = config.objects, config.without
        size = (0.0, 0.0) if "vehicle_size" in without else (objects.vehicle_length, objects.vehicle_width)
        rule = cls(objects.keep, objects.min_cells, *size)
        return rule._replace(lag=0.0) if "velocity_lag" in without else rule
