# SPDX-License-Identifier: Apache-2.0
"""Commands on top of results: why a label, two configurations next to each other, a run as an animation."""

import json
import re

import numpy as np
import pytest
from PIL import Image

import roadbed as library
from roadbed import Config, GroundFilter
from tests.cli.process import one_line_and_status_2, roadbed


def test_explain_names_the_label_of_the_nearest_point(cloud):
    found = json.loads(roadbed("explain", cloud, "--at", 6, 6, "--z", -0.5, "--json").stdout)
    scan = library.open(cloud)[0]
    nearest = int(np.argmin(np.linalg.norm(scan.points - [6, 6, -0.5], axis=1)))
    frame = GroundFilter()(scan)
    assert found["point"] == nearest
    assert found["label"] == "obstacle" == library.Label(frame.label[nearest]).name.lower()
    assert found["values"]["height_above_ground_m"] == pytest.approx(frame.height_above_ground[nearest])
    assert found["rule"] == "height"
    text = roadbed("explain", cloud, "--at", -6, -6).stdout
    assert re.search(r"^label: ground\nrule: height\n", text, re.M)
    assert re.search(r"^height above ground +-?0\.0\d+ m$", text, re.M)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--at", 500, 0), "--at 500 0: expected a point within 1 m, found the nearest at"),
        (("--at", 5, 5, "--frame", 1), "--frame 1: expected 0 to 0"),
        ((), "Missing option '--at'"),
    ],
)
def test_explain_refuses_in_one_line(cloud, options, message):
    one_line_and_status_2(roadbed("explain", cloud, *options), message)


@pytest.mark.parametrize(
    ("command", "hidden"), [("explain", ("--backend", "--device")), ("compare", ("--config", "--preset"))]
)
def test_options_that_would_do_nothing_are_not_shown(command, hidden):
    text = roadbed(command, "--help").stdout
    assert [name for name in hidden if name in text] == []
    assert "--method" in text


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    (folder / "b.yaml").write_text("ground: {labels: {threshold: 0.4, clear_threshold: 0.5}}\n")
    source = "sim:city?sensor=vlp16&frames=3"
    out = roadbed("compare", "default", "b.yaml", source, "-o", "out", "--no-occupancy", "--json", cwd=folder)
    assert out.returncode == 0, out.stderr
    return folder, source, json.loads(out.stdout)


def test_compare_counts_the_labels_that_differ(compared):
    folder, source, facts = compared
    differ = points = 0
    one, other = GroundFilter(Config()), GroundFilter(Config.load(folder / "b.yaml"))
    for scan in library.open(source):
        differ += np.count_nonzero(one(scan).label != other(scan).label)
        points += len(scan)
    assert facts["labels_that_differ"] == differ > 0
    assert facts["labels_that_differ_percent"] == pytest.approx(100 * differ / points, abs=0.001)
    assert facts["parameters"] == {
        "ground.labels.threshold": [0.25, 0.4],
        "ground.labels.clear_threshold": [0.4, 0.5],
    }
    page = (folder / "out" / "report.html").read_text()
    slides = json.loads(re.search(r'id="slides">(.*?)</script>', page, re.DOTALL)[1])
    assert [slide["index"] for slide in slides] == [0, 1, 2]
    most = max(slides, key=lambda slide: int(re.search(r"([\d,]+) labels", slide["text"])[1].replace(",", "")))
    assert any(slide["image"] != slide["other"] for slide in slides)
    assert f'max="2" value="{most["index"]}"' in page  # opened where most labels differ


def test_compare_refuses_in_one_line(compared):
    folder, source, _ = compared
    one_line_and_status_2(roadbed("compare", "default", "c.yaml", source, cwd=folder), "c.yaml")
    for third in (("--config", "b.yaml"), ("--preset", "paper")):
        one_line_and_status_2(roadbed("compare", "default", "b.yaml", source, *third), f"No such option: {third[0]}")
    one_line_and_status_2(roadbed("compare", "default", "b.yaml", source, "-o", "out", cwd=folder), "--force")


def test_share_makes_an_animation_of_a_report(compared):
    folder = compared[0]
    out = roadbed("share", "out", "-o", "clip.gif", "--caption", "a street <b>", "--fps", 2, "--json", cwd=folder)
    assert json.loads(out.stdout)["images"] == 3
    with Image.open(folder / "clip.gif") as clip:
        assert clip.n_frames == 3
        assert clip.info["duration"] == 500
        width, height = clip.size
        below = np.asarray(clip.convert("L"))[height - 24 :]
    assert (below[:, -120:] < 200).sum() > 100  # the caption at the right, the labels at the left, nothing between
    assert (below[:, :240] < 200).sum() > 300
    assert (below[:, 300 : width - 150] < 200).sum() == 0
    one_line_and_status_2(roadbed("share", "out", "-o", "clip.gif", cwd=folder), "clip.gif: exists")
    one_line_and_status_2(roadbed("share", "out", "-o", "clip.png", cwd=folder), "ends with .gif or .mp4")
    one_line_and_status_2(roadbed("share", ".", cwd=folder), "report.html: no such file, expected a folder of")
    assert roadbed("share", "out", "-o", "clip.gif", "--force", cwd=folder).returncode == 0
    Image.new("RGB", (9, 9)).save(folder / "mine.gif")
    mine = (folder / "mine.gif").read_bytes()
    one_line_and_status_2(roadbed("share", "out", "-o", "mine.gif", "--force", cwd=folder), "not made by Roadbed")
    assert (folder / "mine.gif").read_bytes() == mine


@pytest.mark.parametrize(
    "page",
    [
        "",
        "<title>a - Roadbed</title>",
        '<title>a - Roadbed</title><script type="application/json" id="slides">[]</script>',
        '<title>a - Roadbed</title><script type="application/json" id="slides">[{"image": 3}]</script>',
        '<title>a - Roadbed</title><script type="application/json" id="slides">[{"image": "AAAA"}]</script>',
    ],
)
def test_share_refuses_pages_that_are_no_reports(page, tmp_path):
    from roadbed.core.errors import InputError
    from roadbed.outputs.report.page import read_report

    (tmp_path / "report.html").write_text(page)
    with pytest.raises(InputError, match="expected a report of roadbed run"):
        read_report(tmp_path / "report.html")
