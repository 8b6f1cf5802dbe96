# SPDX-License-Identifier: Apache-2.0
"""Simulated sequences as a source: `sim:city?sensor=hdl64e&frames=100&seed=3`."""

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import Field

from roadbed.config.base import Stage
from roadbed.core.errors import ConfigError
from roadbed.core.frames import Scan
from roadbed.core.tracked_objects import Box
from roadbed.sources.source import Source

if TYPE_CHECKING:
    from roadbed.simulate.sequence import SimulatedSequence
    from roadbed.simulate.truth import FrameTruth


class SimulatorOptions(Stage):
    """What follows `sim:SCENE?`."""

    sensor: str = Field("hdl64e", description="a sensor's name or a YAML file")
    frames: int = Field(100, gt=0)
    seed: int = Field(0, ge=0, lt=2**31)
    density: float = Field(1.0, ge=0, le=3, description="scales how many objects there are")
    noise: float | None = Field(None, ge=0, le=1, description="m, standard deviation of the range; the sensor's own")
    odometry: Literal["exact", "drift", "noise", "drift+noise", "none"] = "exact"
    distortion: bool = Field(False, description="points as measured while driving, with point_time")
    multipath: float = Field(0.0, ge=0, le=1, description="share of ground returns that appear below the ground")
    losses: bool = Field(True, description="returns lost with range, incidence and at random")
    mounting: Literal["known", "unknown"] = "known"
    height: float | None = Field(None, gt=0, le=20, description="m, of a single sensor over the road")
    pitch: float | None = Field(None, ge=-90, le=90, description="degrees, of a single sensor, nose down positive")


class SimulatorSource(Source):
    """Frames of a simulated sequence; `truth(i)` is the ground truth of frame i."""

    name = "simulator"
    accepts = tuple(SimulatorOptions.model_fields)

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        settings: SimulatorOptions = SimulatorOptions.parse(self.options, location)
        self.sequence = _make_sequence(self.path.removeprefix("sim:"), settings)
        self._latest: dict[int, tuple[Scan, FrameTruth]] = {}

    @classmethod
    def of(cls, sequence: "SimulatedSequence") -> Self:
        """A source for a sequence with a custom scene or custom sensors."""
        source = cls.__new__(cls)
        Source.__init__(source, f"sim:{sequence.scene.name}")
        source.sequence, source._latest = sequence, {}
        return source

    @classmethod
    def matches(cls, location: str) -> bool:
        return location.startswith("sim:")

    def __len__(self) -> int:
        return len(self.sequence)

    def __getitem__(self, index: int) -> Scan:
        return self._frame(index)[0]

    def truth(self, index: int) -> "FrameTruth":
        """Labels, objects, elevation and occupancy of frame `index`."""
        return self._frame(index)[1]

    def objects(self, index: int) -> tuple[Box, ...]:
        """Boxes around the road users near frame `index`, in the frame of its scan."""
        return tuple(
            Box(item["id"], item["kind"], np.array(item["footprint"]), item["z"], item["height"])
            for item in self.truth(index).annotations()
        )

    def _frame(self, index: int) -> tuple[Scan, "FrameTruth"]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"{self.location}: frame {index} of {len(self)}")
        index %= len(self)
        if index not in self._latest:  # two are kept: deskewing reads one scan ahead of the one that is scored
            self._latest = {**dict(list(self._latest.items())[-1:]), index: self.sequence.frame(index)}
        return self._latest[index]


def _make_sequence(scene_name: str, options: SimulatorOptions) -> "SimulatedSequence":
    from roadbed.simulate.motion import ODOMETRIES
    from roadbed.simulate.scenes import build_scene
    from roadbed.simulate.sensors import load_rig
    from roadbed.simulate.sequence import SimulatedSequence

    scene = build_scene(scene_name, options.seed, options.density)
    rig = load_rig(options.sensor)
    if options.noise is not None:
        rig = rig.changed(range_noise=options.noise)
    if options.height is not None or options.pitch is not None:
        if len(rig.sensors) > 1:
            raise ConfigError(f"height and pitch: expected a single sensor, {options.sensor} is a rig")
        moved = {"z": options.height, "pitch": options.pitch}
        rig = rig.changed(mount={name: value for name, value in moved.items() if value is not None})
    return SimulatedSequence(
        scene,
        rig,
        options.frames,
        options.seed,
        odometry=ODOMETRIES.get(options.odometry),
        distortion=options.distortion,
        multipath=options.multipath,
        losses=options.losses,
        mounting_known=options.mounting == "known",
    )
