# SPDX-License-Identifier: Apache-2.0
"""Accuracy of the occupancy against simulated truth or annotated boxes."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.core.errors import InputError
from roadbed.core.frames import GroundFrame, OccupancyFrame, Scan
from roadbed.core.geometry import Pose
from roadbed.evaluate.masks import Masks
from roadbed.evaluate.metrics import mean
from roadbed.evaluate.occupancy_boxes import Annotation, BoxScorer
from roadbed.evaluate.occupancy_truth import TruthScorer
from roadbed.pipeline import Pipeline
from roadbed.sources import Source

_MOVABLE = ("car", "truck", "cyclist", "pedestrian")
_KEEP_WITHIN = 2.0  # m an object's middle must lie inside the grid to be scored


def evaluate_occupancy(
    source: Source,
    config: Config | None = None,
    masks: str | Path | None = None,
    watch: Callable[[Iterable[Scan]], Iterable[Scan]] = iter,
) -> dict[str, Any]:
    """Run the whole chain over a source and score its occupancy; the dictionary is what the command prints."""
    simulated = hasattr(source, "truth")
    if not simulated and not hasattr(source, "objects"):
        raise InputError(f"{source.location}: expected annotated boxes (objects.jsonl) or a simulated drive")
    config = config or Config()
    scorer = OccupancyScorer(source, _learned(Masks.load(masks), source, config) if masks else None)
    milliseconds: list[float] = []
    for index, result in enumerate(Pipeline(config).run(watch(iter(source)))):
        assert result.occupancy is not None
        milliseconds.append(1e3 * sum(result.occupancy.timings.values()))
        scorer.add(index, result.occupancy, result.ground)
    out: dict[str, Any] = {"source": source.location, "against": "simulation" if simulated else "boxes"}
    out |= scorer.result()
    out["median_ms"] = round(float(np.median(milliseconds)), 3) if milliseconds else None
    return out


class OccupancyScorer:
    """Compares the frames of one run with the boxes of their source, and with its truth where it is simulated."""

    def __init__(self, source: Any, masks: Masks | None = None) -> None:
        self._source = source
        self._boxes = BoxScorer(masks)
        self._cells = TruthScorer() if hasattr(source, "truth") else None

    def add(self, index: int, frame: OccupancyFrame, ground: GroundFrame) -> None:
        T_grid_sensor = _T_grid_sensor(frame, ground)
        annotate = _annotated if self._cells is None else _simulated
        annotations = annotate(self._source, index, T_grid_sensor)
        scored = [box for box in annotations if _in_grid(box, frame)]
        self._boxes.add(frame, scored, [box for box in annotations if box not in scored])
        if self._cells is not None:
            self._cells.add(frame, self._source.truth(index), T_grid_sensor)

    def result(self) -> dict[str, Any]:
        """All figures but the source and the time."""
        out = self._boxes.result()
        if self._cells is not None:
            out |= self._cells.result()
            out["velocity_rmse"] = self._boxes.velocity_rmse(("car", "truck"))
        return out


def mean_over_seeds(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures averaged over runs of the same source with different seeds; `seeds` says how many.

    A mean is over the seeds that know a figure; in how many a mover's speed settled at all is `settled_seeds`.
    """
    out = dict(runs[0]) | {"seeds": len(runs)}
    for name, value in runs[0].items():
        if isinstance(value, float):
            out[name] = mean(run[name] for run in runs)
    for group in ("movers", "standing"):
        rows = {row["id"]: row for run in reversed(runs) for row in run[group]}
        out[group] = []
        for row in rows.values():
            twins = [twin for run in runs for twin in run[group] if twin["id"] == row["id"]]
            merged = dict(row)
            for name, value in row.items():
                if isinstance(value, float) or (value is None and name != "speeds"):
                    merged[name] = mean(twin[name] for twin in twins)
            if "settled_after_s" in row:
                merged["settled_seeds"] = sum(twin["settled_after_s"] is not None for twin in twins)
            out[group].append(merged)
    return out


def _T_grid_sensor(frame: OccupancyFrame, ground: GroundFrame) -> Pose:
    """From the scan to the grid's own axes, which turn with the vehicle on an interpolating grid."""
    if frame.T_ground_grid is None:
        return ground.T_grid_sensor
    return frame.T_ground_grid.inverse() @ ground.T_grid_sensor


def _annotated(source: Any, index: int, T_grid_sensor: Pose) -> list[Annotation]:
    found = []
    for box in source.objects(index):
        corners = np.column_stack([box.footprint, np.full(4, box.z)])
        found.append(Annotation(box.id, box.kind, (T_grid_sensor @ corners)[:, :2]))
    return found


def _simulated(source: Any, index: int, T_grid_sensor: Pose) -> list[Annotation]:
    truth = source.truth(index)
    T_grid_world = T_grid_sensor @ truth.T_world_sensor.inverse()
    found = []
    for item in truth.objects():
        if item.kind not in _MOVABLE:
            continue
        corners = np.column_stack([item.footprint, np.full(4, item.T_world_object.translation[2])])
        velocity = (T_grid_world.rotation @ item.velocity)[:2]
        found.append(Annotation(str(item.id), item.kind, (T_grid_world @ corners)[:, :2], velocity))
    return found


def _in_grid(box: Annotation, frame: OccupancyFrame) -> bool:
    x_min, x_max, y_min, y_max = frame.grid.extent
    x, y = box.footprint.mean(axis=0)
    return bool(x_min + _KEEP_WITHIN < x < x_max - _KEEP_WITHIN and y_min + _KEEP_WITHIN < y < y_max - _KEEP_WITHIN)


def _learned(masks: Masks, source: Source, config: Config) -> Masks:
    """A first pass over the sequence, in which the masks find passing objects."""
    if not masks.passers:
        return masks
    ground = Pipeline(config, occupancy=False)
    for result in ground.run(iter(source)):
        if result.scan.T_world_sensor is None:
            raise InputError(f"{result.scan.name}: masks need odometry")
        points = result.ground.T_grid_sensor @ result.scan.points
        masks.update(points[:, 0], points[:, 1], result.ground.height_above_ground)
    return masks
