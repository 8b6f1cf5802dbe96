# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

import roadbed
from roadbed.core.errors import InputError


def test_a_folder_of_scans_with_rings(tmp_path):
    for k in range(2):
        rows = np.array([[1, 2, 3, 40, 5], [np.nan, 1e30, 0, 0, 31]], np.float32) + np.float32(0)
        rows[0, 0] = k
        rows.tofile(tmp_path / f"sweep__LIDAR_TOP__{k}.pcd.bin")
    source = roadbed.open(tmp_path)
    assert (source.name, len(source), source.sequential) == ("nuscenes", 2, False)
    assert source[1].name == "sweep__LIDAR_TOP__1"
    assert source[1].points[0, 0] == 1
    assert source[1].ring.tolist() == [5, 31]
    assert source[1].intensity.tolist() == [40, 0]


@pytest.mark.parametrize("points", [0, 1])
def test_no_points_and_one_point(tmp_path, points):
    np.zeros((points, 5), np.float32).tofile(tmp_path / "a.pcd.bin")
    assert len(roadbed.open(tmp_path / "a.pcd.bin")[0]) == points


def test_other_records_are_refused(tmp_path):
    file = tmp_path / "a.pcd.bin"
    np.zeros((3, 4), np.float32).tofile(file)
    with pytest.raises(InputError, match="length: found 48 bytes, expected a multiple of 20"):
        roadbed.open(file)[0]
    np.full((4, 5), 0.5, np.float32).tofile(file)
    with pytest.raises(InputError, match=r"ring: found 0.5, expected whole numbers"):
        roadbed.open(file)[0]


def test_the_front_of_the_vehicle_is_the_data_sets_y(tmp_path):
    """The estimated mounting turns the vehicle frame: pictures and grids lie along the road."""
    x, y = np.meshgrid(np.linspace(-15, 15, 100), np.linspace(-15, 15, 100))
    rows = np.zeros((x.size, 5), np.float32)
    rows[:, :3] = np.stack([x.ravel(), y.ravel(), np.full(x.size, -1.84)], axis=1)
    rows.tofile(tmp_path / "a.pcd.bin")
    frame = roadbed.GroundFilter()(roadbed.open(tmp_path / "a.pcd.bin")[0])
    ahead = frame.mounting.T_vehicle_sensor.rotation @ np.array([0.0, 1.0, 0.0])
    np.testing.assert_allclose(ahead, [1, 0, 0], atol=0.02)
    assert frame.mounting.height == pytest.approx(1.84, abs=0.03)
    assert frame.is_ground.mean() > 0.95
