# SPDX-License-Identifier: Apache-2.0
"""Scenes of nuScenes in the layout of its tables: sweeps in order, poses in the world, boxes between samples."""

import json
from random import Random

import numpy as np
import pytest

import roadbed
from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose
from roadbed.evaluate.occupancy import evaluate_occupancy
from tests.fuzz.damage import damage

BEGIN = 1_532_402_927_647_951  # us
T_EGO_LIDAR = Pose.from_euler(0.94, 0.0, 1.84, yaw=-np.pi / 2)  # x of the sensor points to the right
RING, ANGLE = np.meshgrid(np.geomspace(3, 30, 24), np.linspace(-np.pi, np.pi, 180, endpoint=False))
ROAD = np.stack([RING * np.cos(ANGLE), RING * np.sin(ANGLE), np.full_like(RING, -1.84)], axis=-1).reshape(-1, 3)


def record(pose: Pose, **more):
    yaw = pose.yaw / 2
    rotation = [float(np.cos(yaw)), 0.0, 0.0, float(np.sin(yaw))]
    return {"translation": pose.translation.tolist(), "rotation": rotation, **more}


def ego(sweep: int) -> Pose:
    """The vehicle drives east with 10 m/s."""
    return Pose.from_euler(400 + 0.5 * sweep, 1000, 0)


def car(sweep: int) -> Pose:
    """A car ahead of it turns to the left by 0.4 degrees per sweep."""
    return Pose.from_euler(410 + 0.25 * sweep, 1002, 0.8, yaw=np.radians(0.4 * sweep))


@pytest.fixture
def data(tmp_path):
    """A scene of two samples, ten sweeps apart; the tables list the sweeps in another order, and those of a camera."""
    tables = {name: [] for name in ("scene", "sample", "sample_data", "calibrated_sensor", "ego_pose")}
    tables |= {name: [] for name in ("sample_annotation", "instance", "category")}
    tables["scene"] = [{"token": "s1", "name": "scene-0061"}, {"token": "s2", "name": "scene-0103"}]
    tables["calibrated_sensor"] = [record(T_EGO_LIDAR, token="top", sensor_token="lidar")]
    tables["category"], tables["instance"] = (
        [{"token": "c", "name": "vehicle.car"}],
        [{"token": "i", "category_token": "c"}],
    )
    for number in (0, 10):
        tables["sample"].append({"token": f"k{number}", "timestamp": BEGIN + 50_000 * number, "scene_token": "s1"})
        box = record(
            car(number), token=f"a{number}", sample_token=f"k{number}", instance_token="i", size=[1.9, 4.5, 1.6]
        )
        tables["sample_annotation"].append(box)
    for sweep in range(10, -1, -1):
        folder = "samples" if sweep % 10 == 0 else "sweeps"
        name = f"{folder}/LIDAR_TOP/n015__LIDAR_TOP__{BEGIN + 50_000 * sweep}.pcd.bin"
        row = {"sample_token": "k0" if sweep == 0 else "k10", "timestamp": BEGIN + 50_000 * sweep, "token": f"d{sweep}"}
        tables["ego_pose"].append(record(ego(sweep), token=f"e{sweep}"))
        tables["sample_data"].append(
            {**row, "ego_pose_token": f"e{sweep}", "calibrated_sensor_token": "top", "filename": name}
        )
        tables["sample_data"].append({**row, "filename": "samples/CAM_FRONT/a.jpg"})
        (tmp_path / folder / "LIDAR_TOP").mkdir(parents=True, exist_ok=True)
        points = np.column_stack([ROAD, np.full(len(ROAD), sweep), np.arange(len(ROAD)) % 32])
        points.astype("<f4").tofile(tmp_path / name)
    write(tmp_path, **tables)
    return tmp_path


def write(folder, **tables):
    (folder / "v1.0-mini").mkdir(exist_ok=True)
    for name, rows in tables.items():
        (folder / "v1.0-mini" / f"{name}.json").write_text(json.dumps(rows))


def test_a_scene_is_its_sweeps_in_order_with_their_poses(data):
    source = roadbed.open(f"{data}?scene=scene-0061")
    assert (source.name, len(source), source.sequential) == ("nuscenes-scene", 11, True)
    for index, scan in enumerate(source):
        assert scan.intensity[0] == index
        assert scan.time == pytest.approx(BEGIN * 1e-6 + 0.05 * index)
        np.testing.assert_allclose(scan.T_world_sensor.translation, (ego(index) @ T_EGO_LIDAR).translation)
    # The sensor's y points ahead.
    np.testing.assert_allclose(scan.T_world_sensor.rotation @ [0, 1, 0], [1, 0, 0], atol=1e-9)


def test_boxes_move_between_the_samples(data):
    source = roadbed.open(f"{data}?scene=scene-0061")
    for index in range(11):
        (box,) = source.objects(index)
        T_sensor_car = (ego(index) @ T_EGO_LIDAR).inverse() @ car(index)
        np.testing.assert_allclose(box.centre, T_sensor_car.translation[:2], atol=1e-6)
        front = T_sensor_car @ np.array([2.25, 0, -0.8])
        np.testing.assert_allclose(box.footprint[:2].mean(axis=0), front[:2], atol=1e-6)
        assert (box.id, box.kind, box.height) == ("i", "vehicle.car", 1.6)
        assert box.z == pytest.approx(-1.84, abs=1e-6)


def test_the_occupancy_is_scored_against_them(data):
    out = evaluate_occupancy(roadbed.open(f"{data}?scene=scene-0061"))
    assert out["against"] == "boxes"


@pytest.mark.parametrize(
    ("location", "tables", "message"),
    [
        ("", {}, r"scene: found None, expected \?scene= with one of scene-0061, scene-0103"),
        ("?scene=scene-0007", {}, r"scene: found scene-0007, expected"),
        ("?scene=scene-0103", {}, r"not found, expected the sweeps of LIDAR_TOP"),
        ("?scene=scene-0061", {"sample_data": [{}]}, r"v1.0-mini: not a readable set of nuScenes tables \(KeyError"),
        ("?scene=scene-0061", {"sample": {}}, r"sample.json: expected a list of records"),
        (
            "?scene=scene-0061",
            {"sample_data": [{"sample_token": "k0", "timestamp": 1, "filename": "../LIDAR_TOP/a.pcd.bin"}]},
            r"found the file ../LIDAR_TOP/a.pcd.bin, expected one in the folder",
        ),
    ],
)
def test_what_is_wrong_is_named(data, location, tables, message):
    write(data, **tables)
    with pytest.raises(InputError, match=message):
        roadbed.open(f"{data}{location}")


def test_a_table_that_is_missing_is_named(data):
    (data / "v1.0-mini" / "instance.json").unlink()
    with pytest.raises(InputError, match=r"instance.json: found no table"):
        roadbed.open(f"{data}?scene=scene-0061").objects(0)


def test_damaged_tables_are_read_or_end_in_one_line(data):
    read, messages = 0, []
    for seed in range(120):
        rng = Random(seed)
        table = rng.choice(sorted((data / "v1.0-mini").glob("*.json")))
        whole = table.read_bytes()
        table.write_bytes(damage(rng, whole, (b"null", b"1e999", b"[]", b"NaN", b'"'), ()))
        try:
            source = roadbed.open(f"{data}?scene=scene-0061")
            boxes = source.objects(len(source) - 1)
            assert all(np.isfinite([*box.footprint.ravel(), box.z, box.height]).all() for box in boxes)
            read += 1
        except InputError as error:
            messages.append(str(error))
        table.write_bytes(whole)
    assert read > 3
    assert len(messages) > 3
    assert not [message for message in messages if "\n" in message]
