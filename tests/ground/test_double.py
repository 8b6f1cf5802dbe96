# SPDX-License-Identifier: Apache-2.0
"""A whole simulated drive in float32 beside the same drive in float64: errors of rounding do not add up."""

import numpy as np
import pytest

import roadbed
from roadbed import Config, GroundFilter
from roadbed.core.geometry import Grid
from tests.devices import DRIVERS, backend
from tests.ground import oracle

pytestmark = pytest.mark.long(17)

DRIVE = "sim:mountain?sensor=lux4&frames=100"
SIDE = 40  # m and nodes
HIGHEST_CLIMB = 4.0  # m until heights are counted from the road again
LARGEST_M, LARGEST_RMS_M = 1e-3, 5e-5


def settings() -> Config:
    """The paper's method on a lattice that rolls by whole nodes, so that nothing is interpolated between frames."""
    small = {"length": SIDE, "width": SIDE, "known_sigma": 100.0}
    return Config.preset("paper").with_changes(ground={"stcrf": small, "time": {"motion": "rolling"}})


class DoubleDrive:
    """The method's recursion over a drive in float64 alone; each call takes a scan and gives elevation and support."""

    def __init__(self, config: Config) -> None:
        self._stcrf, self._lattice, self._prior = config.ground.stcrf, None, None

    def __call__(self, scan: roadbed.Scan, lattice: Grid):
        if self._prior is not None:
            self._prior = [_rolled(layer, *self._lattice.steps_to(lattice)) for layer in self._prior]
        x_min, x_max, y_min, y_max = lattice.extent
        points = scan.T_world_sensor @ scan.points.astype(np.float64) - [x_min, y_min, 0.0]
        inside = (points[:, :2] >= 0).all(1) & (points[:, 0] < x_max - x_min) & (points[:, 1] < y_max - y_min)
        names = ("beta", "gamma", "neighbours", "sigma_up", "sigma_down", "iterations", "slope_limit")
        rules = {name: getattr(self._stcrf, name) for name in names}
        road = float(scan.T_world_vehicle.translation[2])
        P, X, mu = oracle.em(points[inside], SIDE, SIDE, prior=self._prior, expected=road, **rules)
        self._lattice, self._prior = lattice, [P, X]
        return mu[..., 0], P[..., 0, 0]


def _rolled(layer, columns: int, rows: int):
    """Node (r, c) takes what was at (r + rows, c + columns); what enters is empty."""
    out = np.zeros_like(layer)
    r, c = np.arange(SIDE) + rows, np.arange(SIDE) + columns
    keep_r, keep_c = np.flatnonzero((r >= 0) & (r < SIDE)), np.flatnonzero((c >= 0) & (c < SIDE))
    out[np.ix_(keep_r, keep_c)] = layer[np.ix_(r[keep_r], c[keep_c])]
    return out


@pytest.fixture(scope="module")
def double_drive():
    """Each scan of the drive with its lattice, elevation and support in float64."""
    config, lattice = settings(), Grid.centred(SIDE, SIDE, 1.0)
    double, frames = DoubleDrive(config), []
    for scan in roadbed.open(DRIVE):
        around = lattice.around(*scan.T_world_vehicle.translation[:2])
        frames.append((scan, around, *double(scan, around)))
    return frames


@pytest.mark.parametrize("name", DRIVERS)
def test_rounding_does_not_add_up_over_a_drive(name, double_drive):
    ground = GroundFilter(settings(), backend=backend(name))
    squares = []
    for scan, lattice, elevation, support in double_drive:
        frame = ground(scan)
        assert frame.grid == lattice
        apart = (frame.elevation - elevation)[support > 1]
        assert len(apart) > 100
        assert np.abs(apart).max() < LARGEST_M
        squares.append(np.mean(apart**2))
    print(f"{name}: rms {1e6 * np.sqrt(np.mean(squares)):.1f} um over {len(squares)} scans")
    assert np.sqrt(np.mean(squares)) < LARGEST_RMS_M


def test_the_drive_climbs_until_heights_are_counted_anew(double_drive):
    heights = [scan.T_world_vehicle.translation[2] for scan, *_ in double_drive]
    assert np.ptp(heights) > HIGHEST_CLIMB
