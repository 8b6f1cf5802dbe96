# SPDX-License-Identifier: Apache-2.0
"""`roadbed info SOURCE` on real files."""

import json

import numpy as np
import pytest

from roadbed import Scan
from roadbed.cli.describe import describe, recognised, sensor_guess
from roadbed.sources import open_source
from tests.cli.process import roadbed


def facts_of(location):
    with open_source(location) as source:
        return describe(source)


def test_a_drive_with_poses_times_and_columns(real_data):
    facts = facts_of(real_data / "kitti-raw-0005")
    assert (facts["format"], facts["scans"], facts["poses"]) == ("semantickitti", 50, True)
    assert facts["columns"] == "4 x float32: x, y, z, intensity"
    assert facts["time_base"] == "Unix time"
    assert facts["rate_hz"] == pytest.approx(9.7, abs=0.5)
    assert facts["deskew"] == "no: the points have no times"
    assert facts["mounting"]["found"] == "estimated"
    assert facts["mounting"]["height_m"] == pytest.approx(1.73, abs=0.15)
    assert facts["mounting"]["confidence"] > 0.5
    fields = {field["name"]: field for field in facts["fields"]}
    assert fields["intensity"]["type"] == "float32"
    assert 0 <= fields["intensity"]["min"] < fields["intensity"]["max"] <= 1


def test_a_capture_has_beams_a_rate_and_needs_poses_to_deskew(real_data):
    facts = facts_of(real_data / "formats/sample_velodyne_vlp16_gps.pcap")
    assert "16 beams, elevation -15 to 15 degrees, 360 degrees around" in facts["sensor"]
    assert facts["rate_hz"] == pytest.approx(10, abs=1)
    assert facts["brand"] == "Velodyne"
    assert not facts["poses"]
    assert facts["deskew"].startswith("with --odometry kiss-icp, or poses: points from -0.")


def test_the_field_of_view_is_that_of_the_points():
    bearing = np.radians(np.linspace(-35, 34.9, 500))
    points = np.column_stack([20 * np.cos(bearing), 20 * np.sin(bearing), np.zeros(500)]).astype(np.float32)
    assert "elevation 0 to 0 degrees, 70 degrees around, 99% within 20 m" in sensor_guess(Scan(points))


def test_a_bag_lists_topics_frames_and_transforms(tmp_path):
    from roadbed.outputs.bag import BagWriter

    with BagWriter(tmp_path / "drive.mcap") as bag:
        for scan in open_source("sim:city?sensor=vlp16&frames=2"):
            bag.add_scan(scan)
        bag.finish()
    facts = facts_of(tmp_path / "drive.mcap")
    assert {topic["name"]: topic["messages"] for topic in facts["topics"]} == {
        "/odom": 2,
        "/points": 2,
        "/tf_static": 1,
    }
    assert (facts["topic"], facts["frames"]) == ("/points", ["vlp16"])
    assert (facts["odometry"], facts["transforms"]) == ("/odom", ["base_footprint -> vlp16, fixed"])
    assert facts["mounting"] == pytest.approx(
        {"found": "given", "confidence": 1.0, "height_m": 1.8, "pitch_deg": 0, "roll_deg": 0}
    )
    assert set(facts["options"]) == {"topic", "odometry", "poses", "metadata", "calibration"}


def test_the_command_prints_lines_or_json_and_what_is_missing(real_data, tmp_path):
    file = real_data / "recordings/autoware_test.pcd"
    shown = roadbed("info", file)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "format: pcd\nscans: 1\n" in shown.stdout
    assert json.loads(roadbed("info", file, "--json").stdout)["points"] == [65536]
    refused = roadbed("info", real_data / "recordings/pdal_4326.las")
    assert refused.returncode == 2
    assert refused.stdout == "recognised: a source of kind las\n"
    assert "found degrees" in refused.stderr
    assert refused.stderr.count("\n") == 1
    (tmp_path / "scan.dat").write_bytes(b"LASF" + bytes(20))
    answer = json.loads(roadbed("info", tmp_path / "scan.dat", "--json").stdout)
    assert answer["recognised"] == "LAS or LAZ"
    assert "not recognised as any of" in answer["error"]
    assert recognised(str(tmp_path), None) == "a folder without a known layout (1 .dat)"
