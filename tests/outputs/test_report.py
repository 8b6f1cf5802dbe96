# SPDX-License-Identifier: Apache-2.0
"""The report is one file that needs nothing else, says what was run, and trusts no text it is given."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from roadbed.config import Config
from roadbed.outputs.images import frame_figure, perspective, png_bytes
from roadbed.outputs.report import ReportImage, RunRecorder, frame_scores, write_report
from roadbed.outputs.report.charts import lines, stacked_bars
from roadbed.pipeline import Result
from tests.outputs.frames_for_images import ground_frame, occupancy_frame


def recorded(frames=6, slides=4, **names):
    recorder = RunRecorder("sim:test", Config(seed=3), command="roadbed run sim:test", slides=slides, **names)
    ground, occupancy = ground_frame(points=2000, truth=True), occupancy_frame()
    for index in range(frames):
        timings = {"ground": 0.004 + 0.001 * index, "occupancy": 0.01}
        recorder.add(Result(scan=ground.scan, ground=ground, occupancy=occupancy, timings=timings))
    return recorder


def table_of_times(text):
    """Median, 95th percentile and longest per stage."""
    rows = re.findall(r"<tr><td>(\w+)</td>((?:<td class=number>[\d.]+</td>){3})</tr>", text)
    return {stage: [float(number) for number in re.findall(r">([\d.]+)<", cells)] for stage, cells in rows}


def test_times_leave_out_the_frames_in_which_kernels_were_made_ready(tmp_path):
    ground, recorder = ground_frame(points=100), RunRecorder("sim:test", Config(), slides=0)
    for index, milliseconds in enumerate([9000, 10, 700, 12, 11]):
        if index == 2:
            perspective._pixels(1, 2, 3, 4)  # whole numbers: a variant that drawing has not compiled
        timings = {"ground": milliseconds / 1000}
        recorder.add(Result(scan=ground.scan, ground=ground, occupancy=None, timings=timings))
    assert [frame.index for frame in recorder.frames if frame.warming] == [0, 2]
    text = write_report(tmp_path / "r.html", recorder).read_text()
    assert table_of_times(text) == {"ground": [11, 11.9, 12]}
    assert "leaves out frames 0 and 2, in which kernels were compiled or loaded" in text
    assert "<b>11.0 ms</b>" in text


def test_a_run_of_one_frame_still_has_times(tmp_path):
    text = write_report(tmp_path / "r.html", recorded(frames=1)).read_text()
    assert table_of_times(text)["ground"] == [4, 4, 4]
    assert "in every frame of this short run" in text


def test_the_page_opens_at_the_busiest_frame(tmp_path):
    run = recorded(frames=4)
    run.frames = [replace(frame, objects=objects) for frame, objects in zip(run.frames, (0, 2, 5, 1))]
    text = write_report(tmp_path / "r.html", run).read_text()
    assert 'max="3" value="2"' in text


@pytest.mark.parametrize("options", ["", "?poses=poses.txt"])
def test_a_sequence_is_called_by_its_name_not_by_its_path(tmp_path, options):
    sequence = tmp_path / "drive_05"
    sequence.mkdir()
    text = write_report(tmp_path / "r.html", RunRecorder(f"{sequence}{options}", Config())).read_text()
    assert "<h1>drive_05</h1>" in text
    assert RunRecorder("sim:city?frames=3", Config()).title == "sim:city?frames=3"


class Addresses(HTMLParser):
    """Everything a browser would fetch."""

    def __init__(self):
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if name in ("src", "href")]


def test_report_loads_nothing_and_holds_what_was_run(tmp_path):
    ground = ground_frame(points=2000)
    picture = ReportImage("Frame 0", png_bytes(frame_figure(ground)))
    path = write_report(tmp_path / "report.html", recorded(), [picture])
    text = path.read_text()
    addresses = Addresses()
    addresses.feed(text)
    assert addresses.found
    assert all(address.startswith("data:image/") for address in addresses.found)
    assert not re.search(r"https?://|@import|url\(", text)
    for part in (
        "sim:test",
        "roadbed run sim:test",
        "seed: 3",
        "patchwork++",
        "100.00 %",
        "Frame 0",
        "occupancy",
    ):
        assert part in text
    assert list(tmp_path.iterdir()) == [path]


def test_report_escapes_what_it_is_given(tmp_path):
    bad = "</script><script>alert(1)</script>"
    text = write_report(tmp_path / "r.html", recorded(frames=2, title=bad), results=[bad]).read_text()
    assert "<script>alert" not in text


def test_report_without_frames_or_truth_can_be_written(tmp_path):
    empty = RunRecorder("sim:empty", Config())
    assert "0 frames" in write_report(tmp_path / "r.html", empty).read_text()


@pytest.mark.parametrize("frames", [1, 4, 5, 40])
def test_slides_stay_bounded_and_spread_over_the_run(frames):
    slides = list(recorded(frames=frames).slides)
    assert slides[0] == 0
    assert len(slides) <= 4
    assert len(slides) >= min(frames, 2)
    assert len(set(np.diff(slides))) <= 1


def test_scores_follow_the_protocol_and_need_truth():
    ground = ground_frame(points=2000, truth=True)
    assert frame_scores(ground.scan, ground)["F1"] == 100
    assert frame_scores(ground_frame(points=10).scan, ground_frame(points=10)) == {}


def test_a_score_that_is_unknown_is_a_dash(tmp_path):
    ground = ground_frame(points=2000, truth=True)
    nothing_found = replace(ground, label=np.zeros_like(ground.label))
    recorder = RunRecorder("sim:test", Config())
    for _ in range(3):
        recorder.add(Result(scan=ground.scan, ground=nothing_found, occupancy=None, timings={"ground": 0.01}))
    assert np.isnan(recorder.mean_scores()["precision"])
    assert recorder.mean_scores()["F1"] == 0
    text = write_report(tmp_path / "r.html", recorder).read_text()
    assert "<td>precision of the ground</td><td>-</td>" in text
    assert "nan" not in re.sub(r"base64,[^\"]*", "", text)


def test_bars_stack_to_the_total_and_a_long_first_frame_does_not_flatten_the_rest():
    first, second = np.array([900.0, *[10.0] * 40]), np.full(41, 5.0)
    svg = stacked_bars(["a", "b"], [first, second], "ms")
    heights = np.array([float(h) for h in re.findall(r'height="([\d.]+)"', svg)])
    assert len(heights) == 82
    assert heights[1] == pytest.approx(2 * heights[42], abs=0.11)
    assert heights[1] > 40
    assert ">905<" in svg


def test_lines_leave_out_frames_without_a_value():
    svg = lines(["F1"], [np.array([98.0, np.nan, 99.0])], "%")
    assert len(re.findall("<circle", svg)) == 2
    assert "nan" not in svg
