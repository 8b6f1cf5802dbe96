# SPDX-License-Identifier: Apache-2.0
"""Sensors as data: beam pattern, rate, range and its errors, and mounting on the vehicle."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from roadbed.config.base import Stage
from roadbed.config.text import load_text, parse_yaml
from roadbed.core.errors import ConfigError
from roadbed.core.geometry import Pose

Degrees = Annotated[float, Field(ge=-360, le=360)]


class Mount(Stage):
    """Pose of a sensor in the vehicle frame (origin on the road under the vehicle): metres and degrees."""

    x: float = 0.0
    y: float = 0.0
    z: float = Field(1.73, gt=0, le=20, description="height over the road")
    yaw: Degrees = 0.0
    pitch: Degrees = Field(0.0, description="positive: nose down")
    roll: Degrees = 0.0

    @property
    def T_vehicle_sensor(self) -> Pose:
        yaw, pitch, roll = np.radians([self.yaw, self.pitch, self.roll])
        return Pose.from_euler(self.x, self.y, self.z, yaw=yaw, pitch=pitch, roll=roll)


class Sensor(Stage):
    """One scanner: every layer fires once at each of `columns` directions of a sweep."""

    name: str = Field("lidar", min_length=1)
    elevations: tuple[Degrees, ...] = Field(min_length=1, description="degrees of each layer, up positive")
    columns: int = Field(gt=0, le=100_000, description="firings of each layer in a sweep")
    azimuth_start: Degrees = Field(180.0, description="degrees, left positive")
    azimuth_end: Degrees = Field(-180.0, description="where the sweep ends, not fired itself on a full turn")
    rate: float = Field(10.0, gt=0, le=1000, description="sweeps per second")
    duty: float = Field(1.0, gt=0, le=1, description="share of the sweep's period spent firing")
    range_min: float = Field(0.9, ge=0)
    range_max: float = Field(120.0, gt=0, le=1000)
    range_10_percent: float = Field(50.0, gt=0, description="m at which 9 of 10 firings at a 10 % target return")
    range_noise: float = Field(0.015, ge=0, le=1, description="standard deviation, m")
    angle_noise: float = Field(0.0, ge=0, le=1, description="standard deviation, degrees")
    dropout: float = Field(0.005, ge=0, lt=1, description="share of firings lost at random")
    mount: Mount = Mount()

    @model_validator(mode="after")
    def _ordered(self) -> Sensor:
        if self.range_min >= self.range_max:
            raise ValueError(f"range_min {self.range_min} must be below range_max {self.range_max}")
        if self.azimuth_start == self.azimuth_end:
            raise ValueError("azimuth_start and azimuth_end must differ")
        return self

    def azimuths(self) -> NDArray[np.float64]:
        """(columns,) rad in firing order."""
        # On a partial sweep each firing covers its share of the field of view: the first lies half a share inside.
        full_turn = abs(abs(self.azimuth_start - self.azimuth_end) - 360) < 1e-9
        shift = 0.0 if full_turn else 0.5
        share = (np.arange(self.columns) + shift) / self.columns
        return np.radians(self.azimuth_start + share * (self.azimuth_end - self.azimuth_start))

    def lags(self) -> NDArray[np.float64]:
        """(columns,) s from the middle of the sweep."""
        return ((np.arange(self.columns) + 0.5) / self.columns - 0.5) * self.duty / self.rate


class Rig(Stage):
    """One or more scanners that sweep together. Several give one merged scan in the vehicle frame."""

    sensors: tuple[Sensor, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _together(self) -> Rig:
        names = [sensor.name for sensor in self.sensors]
        if len(set(names)) < len(names):
            raise ValueError(f"sensors need different names, found {', '.join(names)}")
        if len({sensor.rate for sensor in self.sensors}) > 1:
            raise ValueError("the sensors of a rig must share one rate")
        return self

    @property
    def rate(self) -> float:
        return self.sensors[0].rate

    @classmethod
    def of(cls, *sensors: Sensor) -> Rig:
        return cls(sensors=sensors)

    def changed(self, **values: Any) -> Rig:
        """With the same change made to every sensor, e.g. range_noise."""
        return Rig(sensors=tuple(sensor.with_changes(**values) for sensor in self.sensors))


def _evenly(first: float, last: float, count: int) -> tuple[float, ...]:
    return tuple(float(angle) for angle in np.linspace(first, last, count))


def hdl64e(columns: int = 1563) -> Rig:
    """Velodyne HDL-64E: +2 to -24.33 degrees, a million firings a second."""
    elevations = _evenly(2.0, -8.33, 32) + _evenly(-8.83, -24.33, 32)
    return Rig.of(Sensor(name="hdl64e", elevations=elevations, columns=columns))


def hdl64e_s2() -> Rig:
    """The faster HDL-64E S2 (1.33 million firings a second), as on the KITTI car."""
    return hdl64e(2083)


def hdl32e() -> Rig:
    """Velodyne HDL-32E: +10.67 to -30.67 degrees, 46.08 microseconds a column."""
    return _velodyne("hdl32e", _evenly(10.67, -30.67, 32), 2170, Mount(z=1.84))


def vlp16() -> Rig:
    """Velodyne VLP-16: +15 to -15 degrees in 16 layers, 55.296 microseconds a column."""
    return _velodyne("vlp16", _evenly(15.0, -15.0, 16), 1808, Mount(z=1.8))


def _velodyne(name: str, elevations: tuple[float, ...], columns: int, mount: Mount) -> Rig:
    sensor = Sensor(name=name, elevations=elevations, columns=columns, range_max=100.0, range_noise=0.02, mount=mount)
    return Rig.of(sensor)


def solid_state() -> Rig:
    """A forward solid-state scanner: a raster of 70 by 25 degrees."""
    sensor = Sensor(
        name="solid_state",
        elevations=_evenly(5.0, -20.0, 126),
        columns=350,
        azimuth_start=35.0,
        azimuth_end=-35.0,
        range_max=200.0,
        range_10_percent=150.0,
        range_noise=0.02,
        mount=Mount(x=1.8, z=1.2),
    )
    return Rig.of(sensor)


def _lux(name: str, x: float, y: float, yaw: float) -> Sensor:
    """Ibeo LUX: 4 layers of 85 degrees, 25 Hz."""
    return Sensor(
        name=name,
        elevations=(1.2, 0.4, -0.4, -1.2),
        columns=160,
        azimuth_start=42.5,
        azimuth_end=-42.5,
        rate=25.0,
        duty=85 / 360,
        range_min=0.3,
        range_max=200.0,
        range_10_percent=50.0,
        range_noise=0.04,
        mount=Mount(x=x, y=y, z=0.6, yaw=yaw, pitch=1.2),
    )


def lux4() -> Rig:
    """Four Ibeo LUX: three look over 160 degrees in front, one behind."""
    return Rig.of(
        _lux("lux_left", 1.85, 0.6, 37.5),
        _lux("lux_middle", 2.05, 0.0, 0.0),
        _lux("lux_right", 1.85, -0.6, -37.5),
        _lux("lux_rear", -2.05, 0.0, 180.0),
    )


def lux8() -> Rig:
    """Eight Ibeo LUX around the vehicle, 45 degrees apart: as many LiDARs as the many-core paper fuses."""
    turns = np.arange(8) * 45.0
    x, y = 2.05 * np.cos(np.radians(turns)), 0.9 * np.sin(np.radians(turns))
    return Rig.of(*(_lux(f"lux_{k}", float(x[k]), float(y[k]), float(turn)) for k, turn in enumerate(turns)))


SENSORS = {
    "hdl64e": hdl64e,
    "hdl64e_s2": hdl64e_s2,
    "hdl32e": hdl32e,
    "vlp16": vlp16,
    "solid_state": solid_state,
    "lux4": lux4,
    "lux8": lux8,
}


def load_rig(name: str) -> Rig:
    """A rig by name, or from a YAML file with a list `sensors`."""
    if name in SENSORS:
        return SENSORS[name]()
    if not name.endswith((".yaml", ".yml")):
        raise ConfigError(f"sensor {name!r}: expected one of {', '.join(SENSORS)}, or a YAML file")
    return Rig.parse(parse_yaml(load_text(name), f"sensor file {name}"), f"sensor file {name}")
