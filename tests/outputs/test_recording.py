# SPDX-License-Identifier: Apache-2.0
"""What a run writes is what its frames hold, value by value."""

import json
import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

from roadbed.config import Config
from roadbed.core.tracked_objects import TrackedObject
from roadbed.outputs.bag import Recorder
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.label import semantickitti_classes
from roadbed.outputs.recording import RunFolder
from roadbed.pipeline import Result
from roadbed.sources import open_source
from tests.outputs.frames_for_images import ground_frame, occupancy_frame

# Every number differs, so that no two of them can change places unnoticed.
CAR = TrackedObject(
    id=7,
    position=np.array([5.25, -4.5]),
    extent=np.array([4.125, 1.875]),
    heading=0.375,
    velocity=np.array([6.5, -0.75]),
    velocity_covariance=np.array([[0.5, 0.0625], [0.0625, 0.25]]),
    cells=41,
    age=1.5,
)


@dataclass
class Sensor:
    """A source without an end that is known."""

    scans: list
    sequential: bool = True
    location: str = "made-up"

    def __iter__(self):
        return iter(self.scans)


def result(name="made-up", time=2.5):
    ground, occupancy = ground_frame(points=500), occupancy_frame()
    scan = replace(ground.scan, name=name)
    return Result(
        scan=scan,
        ground=replace(ground, scan=scan),
        occupancy=replace(occupancy, time=time, objects=(CAR,)),
        timings={"ground": 0.01},
    )


@pytest.fixture
def record(tmp_path):
    def finished(*results):
        folder = RunFolder(OutputFolder(tmp_path, RunFolder.PARTS, command="roadbed test"), "sim:test", Config(seed=3))
        for item in results:
            folder.add(item)
        return folder.finish()

    return finished


def test_objects_are_written_as_they_were_tracked(record, tmp_path):
    record(result("000004", 0.5), result("000005", 0.75))
    lines = [json.loads(line) for line in (tmp_path / "objects.jsonl").read_text().splitlines()]
    expected = {
        "id": 7,
        "position": [5.25, -4.5],
        "extent": [4.125, 1.875],
        "heading": 0.375,
        "velocity": [6.5, -0.75],
        "velocity_covariance": [[0.5, 0.0625], [0.0625, 0.25]],
        "cells": 41,
        "age": 1.5,
        "existence": 1.0,
        "acceleration": [0.0, 0.0],
        "yaw_rate": 0.0,
    }
    assert lines == [{"frame": "000004", "time": 0.5, **expected}, {"frame": "000005", "time": 0.75, **expected}]


def test_every_frame_has_its_labels_and_layers(record, tmp_path):
    shown = result()
    record(shown)
    labels = np.fromfile(tmp_path / "labels" / "made-up.label", "<u4")
    np.testing.assert_array_equal(labels, semantickitti_classes(shown.ground.label))
    with np.load(tmp_path / "layers" / "made-up.npz", allow_pickle=False) as layers:
        np.testing.assert_array_equal(layers["ground.elevation"], shown.ground.elevation)
        np.testing.assert_array_equal(layers["occupancy.static"], shown.occupancy.static)
    assert Config.load(tmp_path / "config.yaml") == Config(seed=3)
    linked = re.findall(r'<a href="([^"]+)">', (tmp_path / "report.html").read_text())
    assert linked == ["config.yaml", "labels/", "layers/", "objects.jsonl", "last-frame.png"]
    assert all((tmp_path / name).exists() for name in linked)


def test_a_recorder_counts_what_it_keeps(tmp_path):
    scans = [replace(result().scan, name=str(k), time=100.0 + k) for k in range(3)]
    with Recorder(Sensor(scans), tmp_path / "sequence.mcap") as recorder:
        assert [scan.name for scan in recorder] == ["0", "1", "2"]
    assert recorder.count == 3 == len(open_source(tmp_path / "sequence.mcap"))


def test_scans_of_one_name_do_not_replace_each_other(record, tmp_path):
    record(result("a"), result("a"), result(""))
    assert sorted(path.stem for path in (tmp_path / "labels").iterdir()) == ["000002", "a", "a-000001"]
