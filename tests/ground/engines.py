# SPDX-License-Identifier: Apache-2.0
"""Engines of the STCRF on small lattices, driven by their protocol alone."""

import numpy as np

from roadbed import Config, Pose
from roadbed.ground.engine import FrameInput, GroundEngine, Placement, Vehicle
from roadbed.ground.stcrf.cpu import StcrfCpu
from roadbed.ground.stcrf.device import StcrfDevice
from roadbed.runtime.cpu_backend import CpuBackend
from tests.devices import backend


def engine(name: str, config: Config, optimise: bool = False) -> GroundEngine:
    """The engine of one of `devices.BACKENDS`; `optimise` for tests that run longer than their programs build."""
    where = backend(name, optimise)
    return StcrfCpu(config) if isinstance(where, CpuBackend) else StcrfDevice(where, config)


def given(config: Config, points: np.ndarray, warm: bool = False, pose: Pose | None = None) -> FrameInput:
    """A scan whose vehicle stands at the lattice's middle, on heights that count from zero."""
    stcrf = config.ground.stcrf
    middle = np.array([stcrf.length / 2, stcrf.width / 2, 0.0])
    pose = pose or Pose.identity()
    placement = Placement(pose.rotation, pose.translation + middle, 0.0)
    vehicle = Vehicle(middle[0], middle[1])
    return FrameInput(np.ascontiguousarray(points, np.float32), placement, vehicle, 0.0, warm=warm)
