# SPDX-License-Identifier: Apache-2.0
"""The warm-up workload: each job calls every kernel of its part of the package once, on synthetic input."""

from dataclasses import replace

import numpy as np

import roadbed.ground.variance.cpu
import roadbed.occupancy.cpu
import roadbed.simulate.sequence  # noqa: F401  (imports register the kernels)
from roadbed.config import Config, OccupancyConfig
from roadbed.core.frames import GroundFrame, Label, Mounting, Scan
from roadbed.core.geometry import Grid, Pose
from roadbed.ground import GroundFilter
from roadbed.ground.cloud.origin import density_fall
from roadbed.ground.cloud.origin_cpu import hidden_share
from roadbed.ground.engine import SensorViews
from roadbed.ground.mounting.estimator import MountingEstimator
from roadbed.ground.stcrf.cpu import StcrfCpu
from roadbed.ground.stcrf.motion.motion_cpu import planes_of
from roadbed.ground.visibility.cpu import non_ground_points, steep_faces
from roadbed.ground.visibility.model import VisibilityModel
from roadbed.occupancy import OccupancyFilter
from roadbed.occupancy.fusion.fuse_cpu import unite
from roadbed.occupancy.objects.arrays import MovingLayers
from roadbed.occupancy.objects.model import ClusterRule, TrackRule
from roadbed.occupancy.objects.tracker import ClusterFinder, ObjectTracker
from roadbed.occupancy.observation.movers import MOVER
from roadbed.occupancy.observation.movers_cpu import move_points
from roadbed.outputs.images.perspective import Camera, Canvas
from roadbed.simulate.rng import gaussian, make_key
from roadbed.sources import open_source
from roadbed.sources.formats import lzf

_HEIGHT = 1.8  # m of the sensor over a level road


def ground() -> None:
    """Short drives on the rolling lattice, on the one in the vehicle frame and up a hillside; one scan of 4 layers and
    one of a low sensor on an even floor. Kernels that `labels` compiles in another process come as late as they can."""
    for motion in ("rolling", "vehicle"):
        filter_ = GroundFilter(Config.parse({"ground": {"time": {"motion": motion}, "without": ["visibility"]}}))
        for number in range(3):
            filter_(_scan(number))
    hill = GroundFilter()
    for number in range(3):
        scan = _scan(number)
        steep = np.maximum(scan.points[:, 0] - 6, 0) * np.array([[0], [0], [0.7]], np.float32)
        hill(replace(scan, points=scan.points + steep.T))
    body = {"front": 5, "rear": -1, "left": 1, "right": -1}  # contains returns
    GroundFilter(Config.parse({"vehicle": {"body": body}}))(_scan(0, layers=4))
    low = Pose.from_euler(z=0.4)
    GroundFilter()(Scan(_scan(0).points * np.array([1, 1, 0.4 / _HEIGHT], np.float32), T_vehicle_sensor=low))
    planes_of(np.ones((9, 3, 3), np.float32), 1.0, 1.0)  # kernels of the accelerators' prior


def labels() -> None:
    """What the ground's other kernels are not needed for, so that another process can compile it at the same time."""
    StcrfCpu(Config()).warm_up_results()
    points, level = _scan(0, layers=4).points, np.eye(3)
    non_ground_points(points, SensorViews(level, np.zeros((1, 3))), VisibilityModel())
    steep_faces(points, level)


def variance() -> None:
    GroundFilter(Config.parse({"ground": {"method": "variance"}}))(_scan(0))


def mounting() -> None:
    """A level sensor and an upside-down one: both searches of the estimator; and whether it is at the origin."""
    estimator = MountingEstimator(Config().ground.mounting)
    points = _scan(0).points
    estimator.track(points)
    estimator.estimate(points * np.array([1, -1, -1], np.float32))
    density_fall(points.T.copy())
    hidden_share(points)


def occupancy() -> None:
    """A turning drive over given level ground, on a rolling grid and, shorter, on one in the vehicle frame."""
    for motion, scans in (("rolling", 10), ("vehicle", 2)):
        filter_ = OccupancyFilter(Config.parse({"occupancy": {"grid": {"motion": motion}}}))
        for number in range(scans):
            scan = _scan(number)
            filter_(scan, _level_ground(scan))
    unite(0, 4, np.zeros((2, 4), np.uint16), np.empty(4, np.uint16))  # fusion of two sensors
    points, point_time = np.zeros((1, 3), np.float32), np.zeros(1, np.float32)
    move_points(0, 1, points, point_time, np.zeros(1, MOVER), points.copy())  # of objects, in scans with point times
    grid, tracker = Grid.centred(9, 9, 1.0), ObjectTracker(TrackRule.of(OccupancyConfig()))
    velocity, covariance = (np.zeros((*grid.shape, numbers), np.float32) for numbers in (2, 3))
    seen, static = np.ones(grid.shape, np.float32), np.zeros(grid.shape, np.float32)
    layers = MovingLayers.of(velocity, covariance, np.ones(grid.shape, np.uint16), seen, seen, static)
    moving = np.zeros(grid.shape, np.bool_)
    moving[0, :3] = moving[8, 6:] = True  # two objects
    finder = ClusterFinder(grid.shape, ClusterRule.of(OccupancyConfig(), grid.spacing))
    tracker.update(finder(grid, moving, layers, tracker.known), 0.0)


def simulator() -> None:
    """Two sweeps with their ground truth, and one random number of the odometry noise."""
    gaussian(np.uint64(make_key(0, 1, 2)), 3)
    source = open_source("sim:city?sensor=lux4&frames=2")
    for number in range(2):
        scan, truth = source[number], source.truth(number)  # type: ignore[attr-defined]
        grid = Grid.centred(10, 10, 1.0)
        truth.occupancy(grid, scan.T_vehicle_sensor)
        truth.slope(grid, scan.T_vehicle_sensor)


def pictures() -> None:
    canvas = Canvas(32, 24, Camera((-8.0, 0.0, 4.0), (0.0, 0.0, 0.0)))
    canvas.points(np.zeros((4, 3)), (0, 0, 0))
    canvas.lines(np.zeros((4, 2, 3)), (0, 0, 0))


def files() -> None:
    lzf.decompress(np.zeros(2, np.uint8), np.empty(1, np.uint8))  # one literal


def _scan(number: int, layers: int = 24) -> Scan:
    """Rings on a level road with a box on it, from a sensor that drives on and turns a little."""
    ring, angle = np.meshgrid(np.geomspace(4, 40, layers), np.linspace(-np.pi, np.pi, 180, endpoint=False))
    road = np.stack([ring * np.cos(angle), ring * np.sin(angle), np.full_like(ring, -_HEIGHT)], axis=-1)
    box = np.stack(np.meshgrid([8.0, 8.2], np.linspace(-1, 1, 12), np.linspace(-1.6, -0.4, 12)), axis=-1)
    points = np.concatenate([road.reshape(-1, 3), box.reshape(-1, 3)]).astype(np.float32)
    pose = Pose.from_euler(0.7 * number, 0.0, _HEIGHT, yaw=0.05 * number)
    mount = Pose.from_euler(0.0, 0.0, _HEIGHT)
    return Scan(points, time=0.1 * number, T_world_sensor=pose, T_vehicle_sensor=mount)


def _level_ground(scan: Scan) -> GroundFrame:
    assert scan.T_vehicle_sensor is not None
    assert scan.T_world_sensor is not None
    grid = Grid.centred(60, 60, 1.0)
    height = (scan.points[:, 2] + np.float32(_HEIGHT)).astype(np.float32)
    label = np.where(height < 0.1, Label.GROUND, Label.OBSTACLE).astype(np.uint8)
    flat = np.zeros(grid.shape, np.float32)
    return GroundFrame(
        label=label,
        ground_probability=(label == Label.GROUND).astype(np.float32),
        height_above_ground=height,
        grid=grid,
        elevation=flat,
        slope=np.zeros((*grid.shape, 2), np.float32),
        variance=np.full(grid.shape, 1e-4, np.float32),
        T_grid_sensor=scan.T_world_sensor,
        mounting=Mounting(T_vehicle_sensor=scan.T_vehicle_sensor, estimated=False),
        scan=scan,
        time=scan.time,
        T_world_grid=Pose.identity(),
    )
