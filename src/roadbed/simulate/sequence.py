# SPDX-License-Identifier: Apache-2.0
"""A simulated sequence of a rig in a scene: frame i is the same scan and truth in any order of access."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.errors import ConfigError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.kernels import progress as compilation
from roadbed.simulate.caster import GROUND, CastScene, Sweep, cast_sweep
from roadbed.simulate.ground_ray import Bounds
from roadbed.simulate.motion import Bodies, Odometry
from roadbed.simulate.rng import make_key
from roadbed.simulate.sensors import Rig, Sensor
from roadbed.simulate.solids import build_grid
from roadbed.simulate.truth import OUTLIER, FrameTruth, object_velocity
from roadbed.simulate.world import SWATH, Instant, Scene


@dataclass(frozen=True)
class SimulatedSequence:
    """The scans of a rig on the ego vehicle of a scene, with their truth."""

    scene: Scene
    rig: Rig
    frames: int
    seed: int = 0
    odometry: Odometry | None = field(default_factory=Odometry)  # None: no poses
    distortion: bool = False
    multipath: float = 0.0  # share of the ground's returns
    losses: bool = True  # weak echoes and random dropout
    mounting_known: bool = True

    def __post_init__(self) -> None:
        compilation.announce("roadbed.simulate")
        longest = int(self.scene.duration * self.rig.rate)
        if not 0 < self.frames <= longest:
            raise ConfigError(
                f"frames = {self.frames}: expected 1 to {longest} ({self.scene.name} lasts {self.scene.duration:g} s "
                f"and the sensor sweeps {self.rig.rate:g} times a second)"
            )
        if not 0 <= self.multipath <= 1:
            raise ConfigError(f"multipath = {self.multipath}: expected a share between 0 and 1")
        if len(self.rig.sensors) > 1 and not self.mounting_known:
            raise ConfigError("mounting = unknown: expected a single sensor; a rig is merged by its mountings")
        for sensor in self.rig.sensors:
            x, y, z = (self._true_poses[0] @ sensor.mount.T_vehicle_sensor).translation
            clearance = z - float(self.scene.terrain.height(x, y))
            if clearance <= 0.05:
                raise ConfigError(
                    f"sensor {sensor.name}: {clearance:.2f} m over the ground: expected a mounting above the ground"
                )

    def __len__(self) -> int:
        return self.frames

    def time(self, index: int) -> float:
        """Middle of sweep `index`, s."""
        return index / self.rig.rate

    @cached_property
    def _bounds(self) -> Bounds:
        return self.scene.bounds(np.array([self.time(index) for index in range(self.frames)]))

    @cached_property
    def _vehicle(self) -> Bodies:
        return self.scene.vehicle([self.time(index) for index in range(self.frames)])

    @cached_property
    def _true_poses(self) -> list[Pose]:
        return [Pose(*pose) for pose in zip(self._vehicle.rotation, self._vehicle.translation)]

    @cached_property
    def _measured_poses(self) -> list[Pose]:
        assert self.odometry is not None
        return self.odometry.measure(self._true_poses, self.seed)

    def frame(self, index: int) -> tuple[Scan, FrameTruth]:
        """Scan `index` (a rig's sensors merged, in the vehicle frame) and its truth."""
        instant = self.scene.at(self.time(index))
        parts = [self._sensor_frame(number, index, instant) for number in range(len(self.rig.sensors))]
        compilation.ready("simulate")
        scans, truths = [scan for scan, _ in parts], [truth for _, truth in parts]
        if len(parts) == 1:
            return scans[0], truths[0]
        return Scan.merged(scans), _merged(truths)

    def _sensor_frame(self, number: int, index: int, instant: Instant) -> tuple[Scan, FrameTruth]:
        sensor = self.rig.sensors[number]
        T_vehicle_sensor = sensor.mount.T_vehicle_sensor
        T_world_vehicle = self._true_poses[index]
        T_world_sensor = T_world_vehicle @ T_vehicle_sensor
        sweep = self._cast(sensor, number, index, instant, T_world_vehicle)
        measured = None if self.odometry is None else self._measured_poses[index] @ T_vehicle_sensor
        lags = sensor.lags()[sweep.column] if self.distortion else None
        truth = self._truth(sweep, lags, instant, T_world_sensor, T_world_vehicle)
        semantic = np.where(
            sweep.part == GROUND,
            self.scene.terrain.semantic(sweep.exact[:, 0], sweep.exact[:, 1]),
            instant.solids.semantic[sweep.part] if len(instant.solids.kind) else 0,
        )
        semantic[sweep.spurious] = OUTLIER
        scan = Scan(
            sweep.points,
            time=instant.time,
            T_world_sensor=measured,
            T_vehicle_sensor=T_vehicle_sensor if self.mounting_known else None,
            sensor=sensor.name,
            name=f"{index:06d}",
            intensity=sweep.intensity,
            ring=sweep.ring,
            point_time=lags,
            classes=semantic.astype(np.uint32) | (truth.object_id.astype(np.uint32) << 16),
        )
        return scan, truth

    def _cast(self, sensor: Sensor, number: int, index: int, instant: Instant, T_world_vehicle: Pose) -> Sweep:
        T_vehicle_sensor = sensor.mount.T_vehicle_sensor
        velocity, rate = self._vehicle.velocity[index], self._vehicle.rate[index]
        arm = T_world_vehicle.rotation @ np.cross(rate, T_vehicle_sensor.translation)
        x, y = T_world_vehicle.translation[:2]
        duration = 1 / sensor.rate if self.distortion else 0.0
        grid = build_grid(instant.solids, instant.movements, x, y, SWATH, duration)
        return cast_sweep(
            sensor,
            T_world_vehicle @ T_vehicle_sensor,
            velocity + arm,
            T_vehicle_sensor.rotation.T @ rate,
            CastScene(self.scene.terrain.compiled, self._bounds, instant.solids, instant.movements, grid),
            key=np.uint64(make_key(self.seed, number, index)),
            distortion=self.distortion,
            multipath=self.multipath,
            losses=self.losses,
        )

    def _truth(
        self,
        sweep: Sweep,
        lags: NDArray[np.float64] | None,
        instant: Instant,
        T_world_sensor: Pose,
        T_world_vehicle: Pose,
    ) -> FrameTruth:
        on_object = sweep.part >= 0
        obj = instant.solids.object[sweep.part[on_object]]
        object_id = np.zeros(len(sweep.part), np.int32)
        object_id[on_object] = obj + 1
        velocity = np.zeros((len(sweep.part), 3), np.float32)
        velocity[on_object] = object_velocity(instant, obj, sweep.exact[on_object])
        return FrameTruth(
            time=instant.time,
            T_world_sensor=T_world_sensor,
            T_world_vehicle=T_world_vehicle,
            is_ground=(sweep.part == GROUND) & ~sweep.spurious,
            object_id=object_id,
            velocity=velocity,
            spurious=sweep.spurious,
            points_world=sweep.exact if lags is None else sweep.exact - lags[:, None] * velocity,
            origins=T_world_sensor.translation[None],
            sensor_index=np.zeros(len(sweep.part), np.uint8),
            scene=self.scene,
            instant=instant,
        )


def _merged(truths: list[FrameTruth]) -> FrameTruth:
    """The truth of a merged scan: the sensor frame is the vehicle's."""
    names = ("is_ground", "object_id", "velocity", "spurious", "points_world", "origins")
    joined: dict[str, Any] = {name: np.concatenate([getattr(truth, name) for truth in truths]) for name in names}
    first = truths[0]
    return replace(
        first,
        T_world_sensor=first.T_world_vehicle,
        sensor_index=np.repeat(np.arange(len(truths), dtype=np.uint8), [len(truth.is_ground) for truth in truths]),
        **joined,
    )
