# SPDX-License-Identifier: Apache-2.0
"""Tracked objects against annotated movers, by the CLEAR MOT measures (Bernardin and Stiefelhagen 2008)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from roadbed.core.geometry import Float64
from roadbed.core.tracked_objects import TrackedObject
from roadbed.evaluate.metrics import mean, percent

GATE = 2.0  # m between the centres of a mover and its object, at most
EXTENT_AFTER = 1.0  # s after its first sight from which an object's extent is scored
EXTENT_TOLERANCE = 0.25  # of the true length and width


@dataclass(frozen=True, eq=False)
class TrackingFrame:
    """One frame: objects where they count, and the boxes of objects that can be seen, by id."""

    time: float
    objects: Sequence[TrackedObject]
    visible: Mapping[str, Float64]  # (4, 2) m, footprints
    hidden: Mapping[str, Float64] = field(default_factory=dict)  # objects on these are neither right nor wrong


def tracking_figures(frames: Sequence[TrackingFrame], movers: Sequence[str]) -> dict[str, Any]:
    """MOTA, MOTP, identity switches, fragments, and how often a mover is split or has its extent."""
    counts = Counter[str]()  # mover-frames (all, missed, split between several objects), and objects or events
    distances: list[float] = []
    extents: list[bool] = []  # within the tolerance
    last: dict[str, int] = {}  # the last object of each mover
    lost: set[str] = set()  # movers that were found before, and are missed now
    first: dict[str, float] = {}
    for frame in frames:
        there = {key: box for key, box in frame.visible.items() if key in movers}
        pairs = _assigned(frame.objects, there, last)
        counts["movers"] += len(there)
        for key, box in there.items():
            first.setdefault(key, frame.time)
            mine = [item for item in frame.objects if _holds(box, item.position)]
            counts["split"] += len(mine) > 1
            if key not in pairs:
                counts["missed"] += 1
                if key in last:
                    lost.add(key)
                continue
            item = pairs[key]
            distances.append(float(np.linalg.norm(item.position - box.mean(axis=0))))
            counts["switches"] += key in last and last[key] != item.id
            counts["fragments"] += key in lost
            lost.discard(key)
            last[key] = item.id
            if frame.time >= first[key] + EXTENT_AFTER:
                extents.append(_extent_fits(item, box))
        used = {item.id for item in pairs.values()}
        unseen = [box for key, box in frame.hidden.items() if key in movers]
        counts["false"] += sum(
            item.id not in used and not any(_holds(box, item.position, GATE) for box in unseen)
            for item in frame.objects
        )
    movers_seen = counts["movers"]
    wrong = counts["missed"] + counts["false"] + counts["switches"]
    return {
        "mota_percent": 100 * (1 - wrong / movers_seen) if movers_seen else None,
        "motp_m": mean(distances),
        "mover_frames": movers_seen,
        "missed_mover_frames": float(counts["missed"]),
        "false_objects": float(counts["false"]),
        "id_switches": float(counts["switches"]),
        "fragments": float(counts["fragments"]),
        "split_percent": percent(counts["split"], movers_seen),
        "extent_within_25_percent": 100 * float(np.mean(extents)) if extents else None,
    }


def _assigned(
    objects: Sequence[TrackedObject], boxes: Mapping[str, Float64], last: Mapping[str, int]
) -> dict[str, TrackedObject]:
    """Mover to object: those of the frame before where they still fit, then the nearest first."""
    pairs = []
    for key, box in boxes.items():
        for item in objects:
            distance = float(np.linalg.norm(item.position - box.mean(axis=0)))
            if distance <= GATE or _holds(box, item.position):
                pairs.append((last.get(key) != item.id, distance, key, item))
    found: dict[str, TrackedObject] = {}
    taken: set[int] = set()
    for _, _, key, item in sorted(pairs, key=lambda pair: pair[:2]):
        if key not in found and item.id not in taken:
            found[key] = item
            taken.add(item.id)
    return found


def inside(footprint: Float64, x: ArrayLike, y: ArrayLike, margin: float = 0.0) -> NDArray[np.bool_]:
    """Which points (x, y) lie in a rectangle given by its corners (4, 2), grown by `margin` on every side, m."""
    centre = footprint.mean(axis=0)
    within = np.ones(np.shape(x), bool)
    for edge in (footprint[1] - footprint[0], footprint[3] - footprint[0]):
        length = float(np.linalg.norm(edge))
        offset = ((x - centre[0]) * edge[0] + (y - centre[1]) * edge[1]) / max(length, 1e-9)
        within &= np.abs(offset) <= length / 2 + margin
    return within


def _holds(box: Float64, position: Float64, margin: float = 0.3) -> bool:
    return bool(inside(box, position[0], position[1], margin))


def _extent_fits(item: TrackedObject, box: Float64) -> bool:
    """Both sides, whichever of them is the longer one."""
    true = sorted((float(np.linalg.norm(box[1] - box[0])), float(np.linalg.norm(box[3] - box[0]))))
    said = sorted(item.extent.tolist())
    return all(abs(a - b) <= EXTENT_TOLERANCE * b for a, b in zip(said, true))
