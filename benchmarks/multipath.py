# SPDX-License-Identifier: Apache-2.0
"""What stray returns along the beam cost, for many sensors: simulated scans alone and sequences with odometry."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.core.frames import Label, Scan
from roadbed.ground.filter import GroundFilter
from roadbed.simulate.motion import ODOMETRIES
from roadbed.simulate.scenes import build_scene
from roadbed.simulate.sensors import SENSORS, Mount, Rig, Sensor
from roadbed.simulate.sequence import SimulatedSequence

SCENES = "city", "mountain", "highway", "parking", "offroad"
SHARES = 0.0, 0.05, 0.1
FRAMES = 8  # of a sequence; the scans of ALONE are also labelled without the others
ALONE = 3, 7
WAYS = "known", "estimated", "sequence"
Row = dict[str, Any]


def _evenly(half: float, layers: int) -> tuple[float, ...]:
    return tuple(np.linspace(half, -half, layers).tolist())


def _scanner(name: str, elevations: tuple[float, ...], **mount: float) -> Sensor:
    return Sensor(
        name=name, elevations=elevations, columns=1024, range_max=100.0, range_noise=0.02, mount=Mount(**mount)
    )


_16 = _evenly(15.0, 16)
RIGS = {
    "128 layers of 45 degrees": Rig.of(_scanner("top", _evenly(22.5, 128), z=1.8)),
    "32 layers of 90 degrees": Rig.of(_scanner("top", _evenly(45.0, 32), z=1.8)),
    "64 layers of 104 degrees at 0.6 m": Rig.of(_scanner("low", _evenly(52.0, 64), z=0.6)),
    "16 layers tilted by 30 degrees": Rig.of(_scanner("tilted", _16, z=1.8, pitch=30.0)),
    "two of 16 layers tilted outwards": Rig.of(
        _scanner("left", _16, y=0.6, z=1.8, roll=-30.0), _scanner("right", _16, y=-0.6, z=1.8, roll=30.0)
    ),
    "16 layers on a bumper, 32 on a roof": Rig.of(
        _scanner("bumper", _16, x=3.0, z=0.7), _scanner("roof", _evenly(20.0, 32), x=-1.0, z=2.9)
    ),
}
RIG_NAMES = (*SENSORS, *RIGS)


def rig_of(name: str) -> Rig:
    return RIGS[name] if name in RIGS else SENSORS[name]()


def recorded(scene: str, rig: str, seed: int, share: float) -> list[tuple[Scan, NDArray[np.bool_], NDArray[np.bool_]]]:
    """The scans of a sequence, which points are ground, and which are strays."""
    exact = ODOMETRIES["exact"]
    sequence = SimulatedSequence(build_scene(scene, seed, 1.0), rig_of(rig), FRAMES, seed, exact, multipath=share)
    found = (sequence.frame(number) for number in range(FRAMES))
    return [(scan, truth.is_ground, truth.spurious) for scan, truth in found]


def runs(
    rigs: Sequence[str], scenes: Sequence[str], seeds: Sequence[int], shares: Sequence[float], backend: str
) -> Iterator[Row]:
    """One row per labelled scan: its F1 in %, and how many of its strays got each label."""
    config = Config.of(None).with_changes(backend=backend)
    alone = GroundFilter(config)
    for rig in rigs:
        for share in shares:
            for scene in scenes:
                for seed in seeds:
                    over_time, scans = GroundFilter(config), recorded(scene, rig, seed, share)
                    for number, (scan, is_ground, stray) in enumerate(scans):
                        here = {"rig": rig, "strays": share, "scene": scene, "seed": seed, "scan": number}
                        given = [("sequence", over_time, scan)]
                        if number in ALONE:
                            single = replace(scan, T_world_sensor=None)
                            given.append(("known", alone, single))
                            if not scan.mounts:  # several sensors in one scan need their mountings
                                given.append(("estimated", alone, replace(single, T_vehicle_sensor=None)))
                        for way, ground, one in given:
                            frame = ground(one)
                            found = np.asarray(frame.is_ground)
                            f1 = 200 * float((is_ground & found).sum()) / max(1, int(is_ground.sum() + found.sum()))
                            counts = np.bincount(np.asarray(frame.label)[stray], minlength=len(Label))
                            yield here | {"way": way, "f1": f1} | {label.name: int(counts[label]) for label in Label}


def multipath_rows(
    seeds: Sequence[int],
    rigs: Sequence[str] = RIG_NAMES,
    scenes: Sequence[str] = SCENES,
    shares: Sequence[float] = SHARES,
    backend: str = "cpu",
) -> Iterator[Row]:
    """One row per rig and share of strays: mean and least F1 of its scans, and labels of strays in %."""
    for rig in rigs:
        for share in shares:
            found = list(runs([rig], scenes, seeds, [share], backend))
            row: Row = {"rig": rig, "strays": share}
            for way in WAYS:
                scores = [run["f1"] for run in found if run["way"] == way]
                row[way] = float(np.mean(scores)) if scores else None
                row[f"{way}_least"] = min(scores, default=None)
            strays = sum(run[label.name] for run in found for label in Label)
            for label in Label:
                row[label.name.lower()] = 100 * sum(run[label.name] for run in found) / strays if strays else None
            yield row
