# SPDX-License-Identifier: Apache-2.0
"""A simulated sequence as a SemanticKITTI-style folder, with its exact truth."""

import json
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Grid, Pose
from roadbed.io.atomic import write_file
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.label import write_label
from roadbed.outputs.npz import write_arrays
from roadbed.simulate.sequence import SimulatedSequence
from roadbed.simulate.truth import FrameTruth
from roadbed.sources.datasets.rig import INDEX_FOLDER, RIG_FILE

PARTS = ("velodyne", INDEX_FOLDER, "labels", "truth", "poses.txt", "times.txt", "objects.jsonl", RIG_FILE)


def record_sequence(
    sequence: SimulatedSequence, out: OutputFolder, reach: float = 30.0, spacing: float = 0.2
) -> Generator[Scan]:
    """Write velodyne/, labels/, truth/, poses.txt, times.txt, objects.jsonl and rig.yaml; yields scans as written.

    Closed before its end, it has written a shorter sequence. Truth layers cover `reach` metres around the vehicle on
    world axes. With an unknown mounting the rig is written into truth/.
    """
    if not (reach > 0 and spacing > 0 and reach / spacing <= 5000):
        raise InputError(f"truth layers: reach {reach} m at {spacing} m: expected positive numbers, at most 5000 cells")
    rig = yaml.safe_dump(sequence.rig.model_dump(mode="json"), sort_keys=False)
    write_file(out.file(*(() if sequence.mounting_known else ("truth",)), RIG_FILE), rig)
    times = out.file("times.txt")  # of all frames at first, so that the folder of a killed run is refused
    _write_lines(times, (f"{sequence.time(index):.6f}" for index in range(len(sequence))))
    poses: list[Pose] = []
    boxes: list[dict[str, Any]] = []
    try:
        for index in range(len(sequence)):
            scan, truth = sequence.frame(index)
            write_truth(out.file("truth", f"{scan.name}.npz"), truth, reach, spacing)
            write_scan(out, scan)
            poses.append(scan.T_world_sensor or Pose.identity())
            boxes.append({"frame": len(boxes), "objects": list(truth.annotations())})
            yield scan
    finally:  # what was written before an end is whole
        _write_lines(out.file("objects.jsonl"), (json.dumps(entry) for entry in boxes))
        if sequence.odometry is not None:
            rows = (" ".join(repr(float(v)) for v in pose.matrix[:3].ravel()) for pose in poses)
            _write_lines(out.file("poses.txt"), rows)
        _write_lines(times, (f"{sequence.time(index):.6f}" for index in range(len(poses))))


def write_scan(out: OutputFolder, scan: Scan) -> None:
    """velodyne/NAME.bin (float32 x, y, z, intensity), labels/NAME.label; of a rig sensor_index/NAME.bin (uint8)."""
    intensity = np.zeros(len(scan), np.float32) if scan.intensity is None else scan.intensity
    points = np.column_stack([scan.points, intensity]).astype("<f4")
    write_file(out.file("velodyne", f"{scan.name}.bin"), points.tobytes())
    if scan.mounts:
        write_file(out.file(INDEX_FOLDER, f"{scan.name}.bin"), scan.channels["sensor_index"].astype(np.uint8).tobytes())
    if scan.classes is not None:
        write_label(out.file("labels", f"{scan.name}.label"), scan.classes)


def write_truth(path: Path, truth: FrameTruth, reach: float, spacing: float) -> None:
    """Layers on world axes around the vehicle, and the truth of each point."""
    x, y = np.round(truth.T_world_vehicle.translation[:2] / spacing) * spacing
    grid = Grid.centred(2 * reach, 2 * reach, spacing, x, y)
    occupancy = truth.occupancy(grid)
    write_arrays(
        path,
        {
            "lattice": np.array([grid.x0, grid.y0, grid.spacing, grid.columns, grid.rows]),
            "elevation": truth.elevation(grid).astype(np.float32),
            "slope": truth.slope(grid).astype(np.float32),
            "occupied": occupancy.occupied,
            "moving": occupancy.moving,
            "velocity": occupancy.velocity,
            "object_id": occupancy.object_id,
            "visible": occupancy.visible,
            "point.is_ground": truth.is_ground,
            "point.object_id": truth.object_id,
            "point.velocity": truth.velocity,
            "point.spurious": truth.spurious,
            "T_world_sensor": truth.T_world_sensor.matrix,
            "T_world_vehicle": truth.T_world_vehicle.matrix,
            "time": np.array(truth.time),
        },
    )


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    write_file(path, "".join(f"{line}\n" for line in lines))
