# SPDX-License-Identifier: Apache-2.0
"""Figures and images of a run, collected frame by frame for the report."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.frames import GroundFrame, Scan
from roadbed.pipeline import Result
from roadbed.sources.location import parse_location


def ready_kernels() -> int:
    """How many variants of Roadbed's CPU kernels this process has ready; it grows as they are compiled or loaded."""
    from numba.extending import is_jitted

    modules = [module for name, module in list(sys.modules.items()) if name.startswith("roadbed.") and module]
    return sum(len(value.overloads) for module in modules for value in list(vars(module).values()) if is_jitted(value))


@dataclass(frozen=True)
class FrameRecord:
    index: int
    name: str
    points: int
    shares: Mapping[str, float]  # of the points, by name of the label
    seconds: Mapping[str, float]  # per stage, in the order of the stages
    scores: Mapping[str, float] = field(default_factory=dict)  # percent, NaN where unknown; empty without truth
    objects: int | None = None  # tracked ones; None without occupancy
    diagnostics: tuple[str, ...] = ()
    warming: bool = False  # the first frame, and others in which kernels were compiled or loaded


@dataclass(frozen=True)
class ReportImage:
    caption: str
    data: bytes
    kind: str = "png"  # png, gif, webp


class RunRecorder:
    """`add` each result of a run, then `write_report`. Memory stays bounded however long the run is."""

    def __init__(
        self,
        source: str,
        config: Config,
        *,
        title: str = "",
        command: str = "",
        slides: int = 24,
        draw: Callable[..., NDArray[np.uint8]] | None = None,
    ) -> None:
        self.source, self.config, self.command = source, config, command
        self.title = title or _title(source)
        self.frames: list[FrameRecord] = []
        self.slides: dict[int, bytes] = {}  # images of frames by their index, WebP
        self._most_slides, self._draw = slides, draw  # the image of a frame; None: `quick_image`
        self._every = 1
        self._kernels = ready_kernels()

    def add(self, result: Result) -> FrameRecord:
        """Add the figures of one frame, and its image if it is one of those for the slider."""
        from roadbed.outputs.images import quick_image

        index, scan, occupancy = len(self.frames), result.scan, result.occupancy
        record = FrameRecord(
            index=index,
            name=scan.name or str(index),
            points=len(scan),
            shares=_shares(result.ground),
            seconds=result.timings,
            scores=frame_scores(scan, result.ground),
            objects=None if occupancy is None else len(occupancy.objects),
            diagnostics=result.diagnostics,
            warming=not self.frames or ready_kernels() > self._kernels,
        )
        self.frames.append(record)
        if self._most_slides and index % self._every == 0:
            self.slides[index] = webp_bytes((self._draw or quick_image)(result.ground, occupancy))
            while len(self.slides) > self._most_slides:  # keep every second one, and take half as many from now on
                self._every *= 2
                self.slides = {frame: data for frame, data in self.slides.items() if frame % self._every == 0}
        self._kernels = ready_kernels()  # drawing has kernels too, which are no part of a frame
        return record

    def stages(self) -> list[str]:
        return list(dict.fromkeys(stage for frame in self.frames for stage in frame.seconds))

    def milliseconds(self, stage: str, frames: Sequence[FrameRecord] | None = None) -> NDArray[np.float64]:
        """Of one stage, per frame, by default of all frames; 0 where it did not run."""
        return np.array([1e3 * frame.seconds.get(stage, 0.0) for frame in frames or self.frames])

    def measured(self) -> list[FrameRecord]:
        """Frames whose times count: those without warm-up, unless there are no others."""
        return [frame for frame in self.frames if not frame.warming] or self.frames

    def median_ms(self) -> dict[str, float]:
        """The median of each stage over the measured frames."""
        return {stage: round(float(np.median(self.milliseconds(stage, self.measured()))), 3) for stage in self.stages()}

    def mean_scores(self) -> dict[str, float]:
        """Averages over the frames that have truth; NaN for a measure that no frame has."""
        from roadbed.evaluate.metrics import mean_of_known

        scored = [frame.scores for frame in self.frames if frame.scores]
        return {name: mean_of_known(scores[name] for scores in scored) for name in scored[0]} if scored else {}


def frame_scores(scan: Scan, ground: GroundFrame) -> dict[str, float]:
    """Precision, recall, F1 and IoU of the ground in percent, NaN where unknown; empty without true classes."""
    if scan.classes is None:
        return {}
    from roadbed.evaluate.metrics import Score
    from roadbed.evaluate.protocols import patchwork_plusplus

    score = Score.of(ground.is_ground, *patchwork_plusplus(scan))
    return {"precision": score.precision, "recall": score.recall, "F1": score.f1, "IoU": score.iou}


def webp_bytes(image: NDArray[np.uint8], quality: int = 80) -> bytes:
    """An RGB image as WebP, which every browser shows and which is small for images of points."""
    from PIL import Image

    buffer = BytesIO()
    Image.fromarray(image).save(buffer, format="WEBP", quality=quality, method=2)
    return buffer.getvalue()


def _title(location: str) -> str:
    """A short name of a source: of a file or folder its own name, without parents."""
    path, _ = parse_location(location)
    return Path(path).resolve().name or location if os.path.exists(path) else location


def _shares(ground: GroundFrame) -> dict[str, float]:
    from roadbed.outputs.images.palette import LABELS

    count = np.bincount(ground.label, minlength=len(LABELS)) / max(len(ground.label), 1)
    return {name: float(count[label]) for label, (name, _) in LABELS.items()}
