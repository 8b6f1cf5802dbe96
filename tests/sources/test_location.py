# SPDX-License-Identifier: Apache-2.0
import pytest

import roadbed
from roadbed.core.errors import InputError
from roadbed.sources.location import parse_location


def test_options_follow_the_question_mark():
    assert parse_location("drive.mcap?topic=/a/points&odometry=/odom") == (
        "drive.mcap",
        {"topic": "/a/points", "odometry": "/odom"},
    )
    assert parse_location("sim:city") == ("sim:city", {})


def test_a_source_is_one_line():
    location = "sim:city?sensor=lux4&frames=2"
    assert repr(roadbed.open(location)) == f"SimulatorSource({location!r})"
    assert repr(roadbed.open(location)[1:]).endswith(f"({location!r})")


def test_keywords_win_over_the_location_and_none_means_not_given():
    path, options = parse_location("a?frames=3&seed=1", ("frames", "seed"), {"frames": 5, "seed": None})
    assert (path, options) == ("a", {"frames": 5, "seed": "1"})


def test_a_file_with_a_question_mark_in_its_name_is_a_path(tmp_path):
    file = tmp_path / "what?now=1.npy"
    file.touch()
    assert parse_location(file) == (str(file), {})


@pytest.mark.parametrize("location", ["a?b", "a?=b", "a?b=", "a?b=1&b=2"])
def test_malformed_options_are_refused(location):
    with pytest.raises(InputError, match="expected"):
        parse_location(location)


def test_an_unknown_option_names_the_allowed_and_the_nearest():
    with pytest.raises(InputError, match=r"unknown option 'topc', expected one of topic, poses; did you mean topic\?"):
        parse_location("x.bag?topc=/a", ("topic", "poses"))
    with pytest.raises(InputError, match="has no options"):
        parse_location("x?a=1", ())


def test_missing_and_unknown_locations(tmp_path):
    with pytest.raises(InputError, match="no such file or folder"):
        roadbed.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match="found an empty folder, expected scans"):
        roadbed.open(tmp_path)
    (tmp_path / "letter.docx").write_bytes(b"PK")
    for unknown in (tmp_path, tmp_path / "letter.docx"):
        with pytest.raises(InputError, match="not recognised as any of"):
            roadbed.open(unknown)
    with pytest.raises(InputError, match="source 'xyz': expected one of"):
        roadbed.open(tmp_path, source="xyz")
    for source in ("semantickitti", "kitti-raw", "rosbag", "pcap", "pcd", "ply", "las", "numpy", "nuscenes"):
        with pytest.raises(InputError, match="no such f"):
            roadbed.open(tmp_path / "nowhere", source=source)
