# SPDX-License-Identifier: Apache-2.0
"""A source with a simulated fault between a sensor and Roadbed: `fault:drop?first=20&count=5&of=sim:city?sensor=vlp16`.

`of=` comes last. Importing this module registers the source.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from roadbed.config.base import Stage
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.sources.registry import register
from roadbed.sources.source import Source


class FaultOptions(Stage):
    """Which scans have the fault, and how strong it is."""

    first: int = Field(10, ge=1, description="number of the first scan with the fault")
    count: int = Field(5, ge=1, description="how many scans in a row have it")
    share: float = Field(0.5, gt=0, le=1, description="of a scan's points")
    metres: float = Field(20.0, description="that a pose jumps sideways")
    seconds: float = Field(5.0, description="that the clock jumps back")
    places: int = Field(2, ge=1, description="that a delayed scan comes later in the sequence")
    sensor: int = Field(0, ge=0, description="number of the sensor of a rig that falls silent")
    seed: int = Field(0, ge=0, lt=2**31)

    @property
    def hit(self) -> range:
        return range(self.first, self.first + self.count)


@dataclass(frozen=True)
class FaultContext:
    """One faulty scan: the options, the last good scan, and a random generator of its own."""

    options: FaultOptions
    before: Scan
    random: np.random.Generator

    def some(self, scan: Scan) -> NDArray[np.bool_]:
        """(N,) mask of the affected points."""
        return self.random.random(len(scan)) < self.options.share


def delayed(numbers: list[int], options: FaultOptions) -> list[int]:
    """Each faulty scan comes `places` scans later."""
    arrival = {number: number + (options.places + 0.5 if number in options.hit else 0) for number in numbers}
    return sorted(numbers, key=arrival.__getitem__)


def reversed_order(numbers: list[int], options: FaultOptions) -> list[int]:
    hit = [number for number in numbers if number in options.hit]
    return [*numbers[: options.first], *reversed(hit), *numbers[options.first + len(hit) :]]


def with_random_bytes(scan: Scan, context: FaultContext) -> Scan:
    """Random bytes as coordinates: any float, including NaN, infinity and denormal numbers."""
    noise = context.random.integers(0, 2**32, scan.points.shape, dtype=np.uint32).view(np.float32)
    return replace(scan, points=np.where(context.some(scan)[:, None], noise, scan.points))


def silent_sensor(scan: Scan, context: FaultContext) -> Scan:
    """One sensor of a rig is silent; a single sensor returns no points at all."""
    return scan.part(scan.channels["sensor_index"] != context.options.sensor if scan.mounts else slice(0, 0))


def in_camera_axes(scan: Scan, context: FaultContext) -> Scan:
    """x right, y down, z forward."""
    return replace(scan, points=scan.points[:, [1, 2, 0]] * np.array([-1, -1, 1], np.float32))


def jumped_pose(scan: Scan, context: FaultContext) -> Scan:
    if scan.T_world_sensor is None:
        return scan
    return scan.at(Pose.from_euler(0, context.options.metres, 0) @ scan.T_world_sensor)


# Faults of the sequence return the numbers of the scans in their order of arrival.
SEQUENCE_FAULTS: dict[str, Callable[[list[int], FaultOptions], list[int]]] = {
    "drop": lambda numbers, options: [number for number in numbers if number not in options.hit],
    "repeat": lambda numbers, options: sorted(numbers + [number for number in numbers if number in options.hit]),
    "reorder": reversed_order,
    "delay": delayed,
}
SCAN_FAULTS: dict[str, Callable[[Scan, FaultContext], Scan]] = {
    "truncate": lambda scan, context: scan.part(slice(0, round(len(scan) * (1 - context.options.share)))),
    "empty": lambda scan, context: scan.part(slice(0, 0)),
    "corrupt": with_random_bytes,
    "nan": lambda scan, context: replace(
        scan, points=np.where(context.some(scan)[:, None], np.float32("nan"), scan.points)
    ),
    "silence": silent_sensor,
    "axes": in_camera_axes,
    "millimetres": lambda scan, context: replace(scan, points=scan.points * np.float32(1000)),
    "jump": jumped_pose,
    "freeze": lambda scan, context: scan.at(context.before.T_world_sensor),
    "lost-pose": lambda scan, context: scan.at(None),
    "clock-back": lambda scan, context: replace(
        scan, time=None if scan.time is None else scan.time - context.options.seconds
    ),
    "clock-stopped": lambda scan, context: replace(scan, time=context.before.time),
    "clock-lost": lambda scan, context: replace(scan, time=None),
}

KINDS = (*SEQUENCE_FAULTS, *SCAN_FAULTS)


class FaultSource(Source):
    """Another source, some of whose scans are lost, late, damaged, or have a wrong pose or time.

    `of` is the other source, opened; `numbers[i]` is the scan of it that comes as scan i.
    """

    name = "fault"
    accepts = ("of", *FaultOptions.model_fields)

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self.kind = self.path.removeprefix("fault:")
        if self.kind not in KINDS:
            raise InputError(f"{location}: fault {self.kind!r}: expected one of {', '.join(KINDS)}")
        if "of" not in self.options:
            raise InputError(f"{location}: expected of=SOURCE as the last option, found none")
        self._source: Source = self.options.pop("of")
        self.settings: FaultOptions = FaultOptions.parse(self.options, location)
        self.sequential = self._source.sequential
        self.numbers = list(range(len(self._source)))
        if len(self.numbers) <= self.settings.first:
            raise InputError(f"{location}: first {self.settings.first}: found {len(self.numbers)} scans, expected more")
        if self.kind in SEQUENCE_FAULTS:
            self.numbers = SEQUENCE_FAULTS[self.kind](self.numbers, self.settings)

    @classmethod
    def matches(cls, location: str) -> bool:
        return location.startswith("fault:")

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Scan:
        number = self.numbers[index]
        scan = self._source[number]
        if self.kind in SEQUENCE_FAULTS or number not in self.settings.hit:
            return scan
        before = self._source[self.settings.first - 1]
        random = np.random.default_rng((self.settings.seed, number))
        return SCAN_FAULTS[self.kind](scan, FaultContext(self.settings, before, random))


register("fault", FaultSource)
