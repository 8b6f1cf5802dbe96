# SPDX-License-Identifier: Apache-2.0
"""The whole chain in a simulated street: every car that drives is one object, of a car's size and speed."""

from collections import defaultdict

import numpy as np

import roadbed
from roadbed.evaluate.tracking import inside

KNOWN_AFTER = 1.0  # s


def test_every_car_that_drives_is_one_object_with_its_extent():
    source = roadbed.open("sim:city?frames=16")
    pipeline = roadbed.Pipeline()
    speeds, names = defaultdict(list), {}
    for index, result in enumerate(pipeline.run(source[k] for k in range(len(source)))):
        truth, frame = source.truth(index), result.occupancy
        if frame.time < KNOWN_AFTER - 1e-6:
            continue
        T_ground_grid = frame.T_ground_grid or roadbed.Pose.identity()
        T_grid_world = T_ground_grid.inverse() @ result.ground.T_grid_sensor @ truth.T_world_sensor.inverse()
        seen = np.bincount(truth.object_id[truth.object_id > 0], minlength=1000)
        for car in truth.objects():
            if car.kind != "car" or not car.moving or seen[car.id] < 100:
                continue
            corners = np.column_stack([car.footprint, np.full(4, car.T_world_object.translation[2])])
            footprint = (T_grid_world @ corners)[:, :2]
            mine = [thing for thing in frame.objects if inside(footprint, *thing.position, 0.5).all()]
            assert len(mine) == 1, (index, car.id, [thing.position for thing in mine])
            np.testing.assert_allclose(mine[0].extent, car.size[:2], rtol=0.25)
            speeds[car.id].append(np.linalg.norm(mine[0].velocity) / np.linalg.norm(car.velocity))
            assert names.setdefault(car.id, mine[0].id) == mine[0].id
    assert len(names) >= 3
    assert sum(map(len, speeds.values())) >= 15
    for ratios in speeds.values():  # an oncoming car seems slower while other faces of it come into view
        np.testing.assert_allclose(np.median(ratios), 1, atol=0.1)
        np.testing.assert_allclose(ratios, 1, atol=0.2)
