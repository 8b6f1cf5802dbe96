# SPDX-License-Identifier: Apache-2.0
"""Sensors that the benchmarks add to those of the simulator: other layers, mounted low, tilted, or two of them."""

import numpy as np

from roadbed.simulate.sensors import SENSORS, Mount, Rig, Sensor


def evenly(half: float, layers: int) -> tuple[float, ...]:
    """Layers from `half` to minus that, degrees."""
    return tuple(np.linspace(half, -half, layers).tolist())


def scanner(name: str, elevations: tuple[float, ...], columns: int = 1024, **mount: float) -> Sensor:
    """A sensor of 100 m with these layers (degrees)."""
    return Sensor(
        name=name, elevations=elevations, columns=columns, range_max=100.0, range_noise=0.02, mount=Mount(**mount)
    )


_16 = evenly(15.0, 16)
RIGS = {
    "128 layers of 45 degrees": Rig.of(scanner("top", evenly(22.5, 128), z=1.8)),
    "32 layers of 90 degrees": Rig.of(scanner("top", evenly(45.0, 32), z=1.8)),
    "64 layers of 104 degrees at 0.6 m": Rig.of(scanner("low", evenly(52.0, 64), z=0.6)),
    "16 layers tilted by 30 degrees": Rig.of(scanner("tilted", _16, z=1.8, pitch=30.0)),
    "two of 16 layers tilted outwards": Rig.of(
        scanner("left", _16, y=0.6, z=1.8, roll=-30.0), scanner("right", _16, y=-0.6, z=1.8, roll=30.0)
    ),
    "16 layers on a bumper, 32 on a roof": Rig.of(
        scanner("bumper", _16, x=3.0, z=0.7), scanner("roof", evenly(20.0, 32), x=-1.0, z=2.9)
    ),
}
RIG_NAMES = (*SENSORS, *RIGS)


def rig_of(name: str) -> Rig:
    """A sensor of the simulator or of this file."""
    return RIGS[name] if name in RIGS else SENSORS[name]()
