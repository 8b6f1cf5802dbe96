# SPDX-License-Identifier: Apache-2.0
"""The ground of a street, objects and a sensor of your own in the simulator: python examples/own_scene.py"""

import math

import roadbed
from roadbed.simulate.layers import Crown, Kerb, Wave
from roadbed.simulate.motion import Along, Pace, Roadside
from roadbed.simulate.objects import car, pedestrian, tree
from roadbed.simulate.sensors import Mount, Rig, Sensor
from roadbed.simulate.sequence import SimulatedSequence
from roadbed.simulate.terrain import Terrain
from roadbed.simulate.world import Scene
from roadbed.sources.simulator import SimulatorSource

sensor = Sensor(
    name="roof",
    elevations=tuple(range(10, -31, -1)),  # degrees
    columns=1800,
    rate=20.0,  # Hz
    range_max=80.0,
    range_noise=0.03,
    mount=Mount(x=0.4, z=2.1, pitch=2.0),
)
terrain = Terrain(layers=(Wave(2.0, 120.0), Crown(0.1, 4.0), Kerb(4.0, 0.12)))
objects = (
    car(Along(start=15.0, offset=-2.0, pace=Pace(speed=6.0))),
    car(Along(start=60.0, offset=2.0, pace=Pace(speed=9.0), direction=-1)),
    pedestrian(Along(start=8.0, offset=5.0, pace=Pace(speed=1.4))),
    tree(Roadside(x=20.0, offset=6.5, heading=math.pi)),
)
scene = Scene("my street", terrain, objects, ego_path=Along(0.0, -2.0, Pace(6.0)), duration=20.0)
source = SimulatorSource.of(SimulatedSequence(scene, Rig.of(sensor), frames=3, seed=7))
ground = roadbed.GroundFilter()
for index, scan in enumerate(source):
    frame, truth = ground(scan), source.truth(index)
    correct = (frame.is_ground == truth.is_ground).mean()
    print(f"{scan.name}: {len(scan)} points, {correct:.1%} labelled as in the truth")
