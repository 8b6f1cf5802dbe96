# SPDX-License-Identifier: Apache-2.0
"""Occupancy against annotated boxes: speeds of movers, dynamic share of static objects, falsely moving cells."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.core.frames import OccupancyFrame
from roadbed.core.geometry import Float64, Grid, Pose
from roadbed.core.tracked_objects import TrackedObject
from roadbed.evaluate.masks import Masks
from roadbed.evaluate.metrics import mean, percent
from roadbed.evaluate.tracking import TrackingFrame, inside, tracking_figures
from roadbed.occupancy.objects.clusters_cpu import mean_velocity

WARM_UP = 1.5  # s after its first sight from which a mover's speed is scored
FIT_FRAMES = 2  # true velocities are lines through this many frames before and after
REGION_MARGIN = 0.3  # m around a footprint whose cells belong to the object
EXCLUDED_MARGIN = 0.6  # m around a mover that are left out of the static world
MOVER_SPEED = 0.5  # m/s of net displacement from which an annotated object is a mover; slower frames of it are at rest
MIN_HITS = 3  # observed cells an object needs in a frame to be scored there; else the frame counts as unseen


@dataclass(frozen=True, eq=False)
class Annotation:
    """One object in one frame, in the grid frame."""

    id: str
    kind: str
    footprint: Float64  # (4, 2) m
    velocity: Float64 | None = None  # (2,) m/s where it is known exactly; else a line is fit through the centres

    @property
    def moves(self) -> bool:
        """Whether it is a mover by its exact velocity."""
        return self.velocity is not None and _norm(self.velocity) > MOVER_SPEED


@dataclass
class _Sight:
    """Results of the filter for one object in one frame."""

    time: float
    centre: Float64  # (2,) m in the world, in the grid's frame without odometry
    visible: bool
    velocity: Float64 | None  # of the tracked object there; of its moving cells where none is tracked
    cell_velocity: Float64 | None  # information-weighted over its moving cells
    dynamic: float  # sums over its cells
    occupied: float
    true_velocity: Float64 | None = None  # (2,) m/s along the grid's axes
    T_world_grid: Pose = field(default_factory=Pose.identity)

    @property
    def at_rest(self) -> bool:
        """Whether the object does not move in this frame: it is right to find no velocity."""
        return self.true_velocity is not None and _norm(self.true_velocity) <= MOVER_SPEED


@dataclass
class _Frame:
    time: float
    moving: Float64  # (N, 2) centres of moving cells
    boxes: dict[str, Annotation]  # scored
    static_sums: tuple[float, float]  # dynamic, static + dynamic over occupied cells
    objects: list[TrackedObject]  # outside masks
    object_sums: dict[str, tuple[float, float]] = field(default_factory=dict)
    at_the_rim: dict[str, Annotation] = field(default_factory=dict)  # not scored: partly beyond the grid


class BoxScorer:
    """Collects frames; `result()` compares them with the boxes once all are known."""

    def __init__(self, masks: Masks | None = None) -> None:
        self.masks = masks
        self._sights: dict[str, list[_Sight]] = {}
        self._kinds: dict[str, str] = {}
        self._frames: list[_Frame] = []

    def add(self, frame: OccupancyFrame, boxes: Sequence[Annotation], at_the_rim: Sequence[Annotation] = ()) -> None:
        """One frame with the boxes annotated in it, in the grid frame; nothing but masks is left out.

        Of boxes that reach beyond the grid moving cells are never counted as false.
        """
        x, y = frame.grid.mesh()
        occupied = frame.static + frame.dynamic
        open_to_all = np.ones(occupied.shape, bool)
        if self.masks is not None:
            candidates = frame.moving | (occupied > 0.5)
            open_to_all[candidates] = ~self.masks.covers(len(self._frames), x[candidates], y[candidates])
        counted = open_to_all & (occupied > 0.5)
        moving = frame.moving & open_to_all
        entry = _Frame(
            frame.time,
            np.column_stack([x[moving], y[moving]]),
            {box.id: box for box in boxes},
            (float(frame.dynamic[counted].sum()), float(occupied[counted].sum())),
            self._unmasked(frame),
            at_the_rim={box.id: box for box in at_the_rim},
        )
        for box in (*boxes, *at_the_rim):
            window = _window(frame.grid, box.footprint, EXCLUDED_MARGIN)
            region = inside(box.footprint, x[window], y[window], REGION_MARGIN)
            around = inside(box.footprint, x[window], y[window], EXCLUDED_MARGIN) & counted[window]
            entry.object_sums[box.id] = (
                float(frame.dynamic[window][around].sum()),
                float(occupied[window][around].sum()),
            )
            if box.id in entry.at_the_rim:
                continue
            self._kinds[box.id] = box.kind
            self._sights.setdefault(box.id, []).append(_sight(frame, box, window, region))
        self._frames.append(entry)

    def _unmasked(self, frame: OccupancyFrame) -> list[TrackedObject]:
        if self.masks is None or not frame.objects:
            return list(frame.objects)
        x, y = np.array([item.position for item in frame.objects]).T
        masked = self.masks.covers(len(self._frames), x, y)
        return [item for item, hidden in zip(frame.objects, masked) if not hidden]

    def _tracking(self, movers: list[str]) -> dict[str, Any]:
        seen = {(key, s.time): s.visible and not s.at_rest for key in movers for s in self._sights[key]}
        frames = []
        for frame in self._frames:
            there = {key: box.footprint for key, box in frame.boxes.items() if key in movers}
            visible = {key: box for key, box in there.items() if seen[key, frame.time]}
            hidden = {key: box for key, box in there.items() if key not in visible} | self._unscored(frame, movers)
            frames.append(TrackingFrame(frame.time, frame.objects, visible, hidden))
        leaving = {key for frame in self._frames for key in self._unscored(frame, movers)}
        return tracking_figures(frames, [*movers, *leaving.difference(movers)])

    @staticmethod
    def _unscored(frame: _Frame, movers: list[str]) -> dict[str, Float64]:
        """Footprints of movers that are not scored: at the rim of the grid, or visible too briefly."""
        at_the_rim = {key: box.footprint for key, box in frame.at_the_rim.items() if key in movers or box.moves}
        return at_the_rim | {key: box.footprint for key, box in frame.boxes.items() if box.moves and key not in movers}

    def result(self) -> dict[str, Any]:
        """The figures that `roadbed evaluate occupancy --json` prints."""
        movers = [key for key, sights in self._sights.items() if _moves(sights)]
        for key in movers:
            _fit_velocities(self._sights[key])
        start = self._frames[0].time if self._frames else 0.0
        standing = [key for key in self._sights if key not in movers]
        false_counts = [self._false_moving(frame, movers) for frame in self._frames]
        warm = [frame.time >= start + WARM_UP - 1e-6 for frame in self._frames]
        settled_false = [count for count, late in zip(false_counts, warm) if late]
        settled = [frame for frame, late in zip(self._frames, warm) if late]
        calm = {key: _after_warm_up(self._sights[key]) for key in standing}
        world = [_world_sums(frame, [*movers, *self._unscored(frame, movers)]) for frame in settled]
        rows = [_mover_row(key, self._kinds[key], self._sights[key]) for key in movers]
        seen_rows = [row for row in rows if row["visible_frames"]]
        return {
            "frames": len(self._frames),
            "movers": rows,
            "movers_seen": len(seen_rows),
            "movers_never_settled": float(sum(row["settled_after_s"] is None for row in seen_rows)),
            "movers_never_found": float(sum(row["found_after_s"] is None for row in seen_rows)),
            **self._tracking(movers),
            "standing": [
                {"id": key, "kind": self._kinds[key], "dynamic_share_percent": _share(calm[key])} for key in standing
            ],
            "static_dynamic_share_percent": _share([sight for key in standing for sight in calm[key]]),
            "world_dynamic_share_percent": percent(*(float(np.sum(part)) for part in zip(*world))) if world else None,
            "false_moving_cells": mean(settled_false),
            "false_moving_cells_first": mean(false_counts[1 : len(false_counts) - len(settled_false)]),
        }

    def velocity_rmse(self, kinds: Sequence[str]) -> float | None:
        """m/s, root mean square of the velocity error's length over movers of these kinds after the warm-up."""
        squares = [
            float(np.sum((s.velocity - s.true_velocity) ** 2))
            for key, sights in self._sights.items()
            if self._kinds[key] in kinds and _moves(sights)
            for s in _after_warm_up(sights)
            if s.visible and s.velocity is not None and s.true_velocity is not None
        ]
        return float(np.sqrt(np.mean(squares))) if squares else None

    def _false_moving(self, frame: _Frame, movers: list[str]) -> int:
        explained = np.zeros(len(frame.moving), bool)
        there = {key: box.footprint for key, box in frame.boxes.items() if key in movers}
        for footprint in (there | self._unscored(frame, movers)).values():
            explained |= inside(footprint, frame.moving[:, 0], frame.moving[:, 1], EXCLUDED_MARGIN)
        return int(np.count_nonzero(~explained))


def _window(grid: Grid, footprint: Float64, margin: float) -> tuple[slice, slice]:
    """Rows and columns around a footprint."""
    low = (footprint.min(axis=0) - margin - (grid.x0, grid.y0)) / grid.spacing
    high = (footprint.max(axis=0) + margin - (grid.x0, grid.y0)) / grid.spacing
    columns = slice(max(int(np.floor(low[0])), 0), max(int(np.ceil(high[0])) + 1, 0))
    rows = slice(max(int(np.floor(low[1])), 0), max(int(np.ceil(high[1])) + 1, 0))
    return rows, columns


def _sight(frame: OccupancyFrame, box: Annotation, window: tuple[slice, slice], region: NDArray[np.bool_]) -> _Sight:
    chosen = region & frame.moving[window]
    velocity = None
    if chosen.any():
        cells = frame.velocity[window][chosen], frame.velocity_covariance[window][chosen]
        velocity = np.array(mean_velocity(*cells, np.arange(len(cells[0])))[:2])
    hits = 0 if frame.observation is None else int(np.count_nonzero(frame.observation[window][region] > 0.5))
    dynamic = float(frame.dynamic[window][region].sum())
    occupied = dynamic + float(frame.static[window][region].sum())
    tracked = _tracked_velocity(frame, box)
    T_world_grid = frame.T_world_grid or Pose.identity()
    x, y = box.footprint.mean(axis=0).tolist()
    return _Sight(
        time=frame.time,
        centre=np.asarray(T_world_grid.of(x, y, 0.0)[:2], np.float64),
        visible=hits >= MIN_HITS,
        velocity=velocity if tracked is None else tracked,
        cell_velocity=velocity,
        dynamic=dynamic,
        occupied=occupied,
        true_velocity=box.velocity,
        T_world_grid=T_world_grid,
    )


def _tracked_velocity(frame: OccupancyFrame, box: Annotation) -> Float64 | None:
    """Velocity of the largest tracked object whose middle lies on the box."""
    there = [
        item for item in frame.objects if inside(box.footprint, item.position[0], item.position[1], EXCLUDED_MARGIN)
    ]
    return max(there, key=lambda item: item.cells).velocity if there else None


def _moves(sights: list[_Sight]) -> bool:
    """Whether an object's net displacement in the world is that of a mover; jitter of the annotation is not motion."""
    if sights[-1].time - sights[0].time <= 0.3:
        return False
    third = max(1, len(sights) // 3)
    path = np.array([(s.time, *s.centre) for s in sights])
    seconds, *way = path[-third:].mean(axis=0) - path[:third].mean(axis=0)
    return float(np.hypot(*way)) > MOVER_SPEED * seconds


def _fit_velocities(sights: list[_Sight]) -> None:
    """True velocity: slope of a line through the world positions of the neighbouring frames, along the grid's axes."""
    for k, sight in enumerate(sights):
        if sight.true_velocity is not None:
            continue
        near = sights[max(0, k - FIT_FRAMES) : k + FIT_FRAMES + 1]
        times = np.array([s.time for s in near])
        if len(near) < 3 or np.ptp(times) <= 0:
            continue
        centred = times - times.mean()
        centres = np.array([s.centre for s in near])
        velocity = centred @ (centres - centres.mean(axis=0)) / (centred @ centred)
        sight.true_velocity = velocity @ sight.T_world_grid.rotation[:2, :2]


def _after_warm_up(sights: list[_Sight]) -> list[_Sight]:
    return [s for s in sights if s.time >= sights[0].time + WARM_UP - 1e-6]


def _mover_row(key: str, kind: str, sights: list[_Sight]) -> dict[str, Any]:
    scored = [s for s in sights if s.visible and s.true_velocity is not None and not s.at_rest]
    start = sights[0].time
    annotated = [s for s in _after_warm_up(sights) if s.true_velocity is not None and not s.at_rest]
    late = [s for s in annotated if s.visible]
    errors = [_speed_error(s.velocity, s.true_velocity) for s in late]
    cell_errors = [_speed_error(s.cell_velocity, s.true_velocity) for s in late]
    return {
        "id": key,
        "kind": kind,
        "true_speed": mean(_norm(s.true_velocity) for s in late),
        "estimated_speed": mean(_norm(s.velocity) for s in late if s.velocity is not None),
        "error_percent": mean(100 * abs(error) for error in errors if error is not None),
        "cell_error_percent": mean(100 * abs(error) for error in cell_errors if error is not None),
        "bias_percent": mean(100 * error for error in errors if error is not None),
        "within_10_percent": mean(100.0 * _is_right(error) for error in errors),
        "heading_error_deg": mean(_heading_error(s) for s in late),
        "missed_frames": errors.count(None),
        "unseen_frames": len(annotated) - len(late),
        "settled_after_s": _settled(scored, start),
        "dynamic_share_percent": _share(late),
        "frames": len(late),
        "visible_frames": len(scored),
        "frames_at_rest": sum(s.visible and s.at_rest for s in sights),
        "missed_percent": mean(100.0 * (s.velocity is None) for s in scored),
        "found_after_s": next((round(s.time - start, 3) for s in scored if s.velocity is not None), None),
        "speeds": [
            (round(s.time - start, 3), _norm(s.true_velocity), _norm(s.velocity) if s.velocity is not None else None)
            for s in scored
        ],
    }


def _settled(scored: list[_Sight], start: float) -> float | None:
    """First time from which on at least 90 % of the frames, this one among them, are within 10 %."""
    good = np.array([_is_right(_speed_error(s.velocity, s.true_velocity)) for s in scored], bool)
    for k, sight in enumerate(scored):
        if good[k] and good[k:].mean() >= 0.9:
            return round(sight.time - start, 3)
    return None


def _speed_error(velocity: Float64 | None, true_velocity: Float64 | None) -> float | None:
    """Relative error of a speed; None where either is unknown."""
    if velocity is None or true_velocity is None:
        return None
    true = _norm(true_velocity)
    return (_norm(velocity) - true) / max(true, 1e-9)


def _is_right(error: float | None) -> bool:
    """Whether a speed is known and within 10 %."""
    return error is not None and abs(error) <= 0.1


def _heading_error(sight: _Sight) -> float | None:
    if sight.velocity is None or sight.true_velocity is None:
        return None
    (ax, ay), (bx, by) = sight.velocity, sight.true_velocity
    return float(np.degrees(abs(np.arctan2(ax * by - ay * bx, ax * bx + ay * by))))


def _world_sums(frame: _Frame, movers: list[str]) -> tuple[float, float]:
    """Dynamic and occupied mass of everything but the movers."""
    dynamic, occupied = frame.static_sums
    for key in set(movers):
        d, o = frame.object_sums.get(key, (0.0, 0.0))
        dynamic, occupied = dynamic - d, occupied - o
    return max(dynamic, 0.0), max(occupied, 0.0)


def _share(sights: list[_Sight]) -> float | None:
    seen = [s for s in sights if s.visible]
    return percent(np.sum([s.dynamic for s in seen]), np.sum([s.occupied for s in seen]))


def _norm(vector: Float64 | None) -> float:
    return float(np.linalg.norm(vector)) if vector is not None else float("nan")
