# SPDX-License-Identifier: Apache-2.0
"""The command line as a user runs it: its streams and its exit status."""

import io
import json
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import yaml

from roadbed.cli.screen import progress, table, until_stopped
from roadbed.config import Config
from roadbed.config.ground import StcrfConfig
from roadbed.simulate.scenes import SCENES
from roadbed.sources.formats.pcd import read_pcd
from tests.cli.process import one_line_and_status_2, roadbed, roadbed_process
from tests.disks import mounted


def test_a_table_shows_names_as_they_are(capsys):
    table("rig:car: [b]x[/b]", ("name",), [(":car: [b]x[/b]",)])
    assert capsys.readouterr().out.count(":car: [b]x[/b]") == 2


@pytest.mark.parametrize("statement", ["import roadbed", "import roadbed.cli"])
def test_heavy_packages_are_not_imported_until_used(statement):
    code = f"{statement}, sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    modules = set(out.stdout.split())
    assert "roadbed" in modules
    assert modules.isdisjoint({"numba", "matplotlib", "scipy", "pyopencl", "viser", "rosbags"})


def test_help_names_every_command():
    out = roadbed_process("--help")
    assert out.returncode == 0
    for command in ("segment", "evaluate", "bench", "info", "config"):
        assert command in out.stdout


@pytest.mark.parametrize("group", [(), ("evaluate",), ("bench",), ("config",), ("map", "folder")])
def test_the_summary_of_every_command_fits_its_line(group):
    commands = roadbed(*group, "--help").stdout.partition("Commands:")[2]
    assert commands
    assert "..." not in commands


@pytest.mark.parametrize("command", ["demo", "simulate"])
def test_every_scene_is_named_by_the_help(command):
    text = roadbed(command, "--help").stdout
    assert [name for name in SCENES if not re.search(rf"\b{name}\b", text)] == []


def test_info_lists_packages_and_sources():
    facts = json.loads(roadbed("info", "--json").stdout)
    assert facts["packages"]["numpy"] == np.__version__
    assert {"semantickitti", "pcd", "simulator"} <= set(facts["sources"])


def test_config_show_prints_what_config_check_accepts(tmp_path):
    shown = roadbed("config", "show", "--preset", "paper")
    assert yaml.safe_load(shown.stdout)["ground"]["stcrf"]["iterations"] == 10
    (tmp_path / "paper.yaml").write_text(shown.stdout)
    checked = roadbed("config", "check", tmp_path / "paper.yaml")
    assert checked.returncode == 0
    assert "valid" in checked.stdout
    assert Config.load(tmp_path / "paper.yaml") == Config.preset("paper")


def test_config_show_takes_a_file_or_a_preset(tmp_path):
    (tmp_path / "own.yaml").write_text("preset: small\n")
    shown = roadbed("config", "show", tmp_path / "own.yaml").stdout
    assert Config.loads(shown) == Config.preset("small")
    both = roadbed("config", "show", tmp_path / "own.yaml", "--preset", "default")
    one_line_and_status_2(both, "own.yaml and --preset default: expected one of them, found both")
    assert "--config" not in roadbed("config", "show", "--help").stdout


def test_a_configuration_is_a_file_or_a_preset(cloud, tmp_path):
    (tmp_path / "own.yaml").write_text("preset: small\n")
    both = roadbed("segment", cloud, "-o", tmp_path / "out", "--config", tmp_path / "own.yaml", "--preset", "paper")
    one_line_and_status_2(both, "own.yaml and --preset paper: expected one of them, found both")
    assert not (tmp_path / "out").exists()


def test_config_show_explains_each_parameter():
    lines = roadbed("config", "show").stdout.splitlines()
    meaning = StcrfConfig.model_fields["sigma_up"].description
    assert f"    sigma_up: 0.05  # {meaning}" in lines
    assert f"  stcrf:  # {StcrfConfig.__doc__}" in lines
    assert not [line for line in lines if line.endswith(" ")]


def test_a_wrong_configuration_ends_in_one_line_and_status_2(tmp_path):
    (tmp_path / "wrong.yaml").write_text("ground: {stcrf: {beta: 0.9, gamma: 0.2}}")
    out = roadbed("config", "check", tmp_path / "wrong.yaml")
    assert out.returncode == 2
    assert out.stderr.count("\n") == 1
    assert "beta + gamma = 1.1" in out.stderr


def test_segment_writes_both_clouds_with_every_point_and_channel(cloud, tmp_path):
    import roadbed as library

    out = roadbed_process("segment", cloud, "-o", tmp_path / "out", "--json")
    assert out.returncode == 0, out.stderr
    summary = json.loads(out.stdout)
    ground, rest = (library.open(tmp_path / "out" / name)[0] for name in ("ground.pcd", "nonground.pcd"))
    assert len(ground) == summary["ground"] > 19_000
    assert len(ground) + len(rest) == summary["points"] == 22_000
    echoes = np.concatenate([ground.channels["echo"], rest.channels["echo"]])
    assert sorted(echoes) == list(range(22_000))
    assert (tmp_path / "out" / "config.yaml").exists()
    assert summary["mounting_height_m"] == pytest.approx(1.7, abs=0.03)
    assert abs(summary["mounting_pitch_deg"]) < 1
    assert abs(summary["mounting_roll_deg"]) < 1
    assert summary["mounting_estimated"]
    assert 0 < summary["mounting_confidence"] <= 1
    assert summary["labels"]["ground"] == summary["ground"]
    assert sum(summary["labels"].values()) == 22_000
    assert summary["files"] == [str(tmp_path / "out" / n) for n in ("ground.pcd", "nonground.pcd", "config.yaml")]
    assert summary["phases_ms"]


def test_segment_prints_labels_and_mounting_and_phases_only_on_request(cloud, tmp_path):
    text = roadbed("segment", cloud, "-o", tmp_path / "out").stdout
    assert re.search(r"mounting: 1\.7\d m above the road, pitch .*, roll .* \(estimated, confidence", text)
    assert re.search(r"ground +│ +\d+ │", text)
    assert f"wrote {tmp_path / 'out' / 'ground.pcd'}" in text
    assert "phase" not in text
    again = roadbed("segment", cloud, "-o", tmp_path / "out", "--force", "--height", "1.7", "--verbose").stdout
    assert "phase" in again


def test_a_closed_standard_output_is_no_error(cloud, tmp_path):
    command = [sys.executable, "-m", "roadbed", "segment", str(cloud), "-o", str(tmp_path / "out")]
    out = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, timeout=900)
    assert (out.returncode, out.stderr) == (0, "")
    assert (tmp_path / "out" / "ground.pcd").exists()


def test_segment_and_explain_print_the_notes_of_the_reader(cloud, tmp_path):
    points = read_pcd(cloud).points
    np.savez(tmp_path / "a.npz", points=points, kind=np.full(len(points), "car"))
    note = "note: array kind left out: found <U3, expected numbers"
    assert note in roadbed("segment", tmp_path / "a.npz", "-o", tmp_path / "out").stdout
    x, y = (f"{value:.3f}" for value in points[0, :2])
    assert note in roadbed("explain", tmp_path / "a.npz", "--at", x, y).stdout


def test_segment_with_the_reports_yaml(cloud, tmp_path):
    (tmp_path / "params.yaml").write_text("grid_resolution: 0.3\npointcloud_limits: {y_min: -50.0}\n")
    out = roadbed("segment", cloud, "-o", tmp_path / "out", "--config", tmp_path / "params.yaml", "--json")
    assert out.returncode == 0, out.stderr
    assert json.loads(out.stdout)["method"] == "variance"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["segment", "missing.pcd"], "missing.pcd: no such file or folder"),
        (["evaluate", "ground", "nowhere/"], "nowhere/: no such file or folder"),
        (["segment", "sim:atlantis"], "atlantis"),
        (["config", "show", "--preset", "fast"], "for '--preset': 'fast' is not one of 'default', 'paper'"),
    ],
)
def test_bad_input_ends_in_one_line_and_status_2(arguments, message, tmp_path):
    out = roadbed(*arguments, cwd=tmp_path)
    assert out.returncode == 2
    assert message in out.stderr
    assert out.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_full_disk_ends_in_one_line_and_status_2(cloud, tmp_path):
    with mounted(tmp_path / "disk", "size=100k") as disk:
        one_line_and_status_2(roadbed_process("segment", cloud, "-o", disk / "out"), "No space left on device")


def test_a_read_only_folder_ends_in_one_line_and_status_2(cloud, tmp_path):
    with mounted(tmp_path / "disk", "ro") as disk:
        one_line_and_status_2(roadbed("segment", cloud, "-o", disk / "out"), "Read-only file system")


def test_an_output_that_cannot_be_ends_in_one_line_and_status_2(cloud, tmp_path):
    (tmp_path / "file").write_text("kept")
    one_line_and_status_2(roadbed("segment", cloud, "-o", tmp_path / "file"), "file: found a file, expected a folder")
    one_line_and_status_2(roadbed("segment", cloud, "-o", tmp_path / ("n" * 300)), "File name too long")
    one_line_and_status_2(roadbed("segment", "n" * 300, "-o", tmp_path / "out"), "File name too long")
    assert (tmp_path / "file").read_text() == "kept"


def test_output_that_cannot_be_printed_ends_in_one_line_and_status_2():
    with open("/dev/full", "w") as full:
        out = subprocess.run(
            [sys.executable, "-m", "roadbed", "config", "show"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    one_line_and_status_2(out, "No space left on device")


@pytest.mark.parametrize(
    "arguments", [("segment", "missing.pcd"), ("config", "show", "--preset", "fast"), ("run", "sim:city", "--bogus")]
)
def test_errors_for_machines_are_json(arguments, tmp_path):
    out = roadbed(*arguments, "--json", cwd=tmp_path)
    assert out.returncode == 2
    assert out.stderr == f"roadbed: {json.loads(out.stdout)['error']}\n"


def test_version():
    from roadbed import __version__

    assert roadbed_process("--version").stdout == f"roadbed {__version__}\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_a_command_to_end_and_nohup_is_respected(number):
    before = signal.getsignal(number)
    with until_stopped() as stopped:
        signal.raise_signal(number)
        assert stopped.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) == before
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with until_stopped() as stopped:
            signal.raise_signal(signal.SIGHUP)
            assert not stopped.is_set()
    finally:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_a_progress_bar_is_gone_when_the_work_is_done(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(progress([1, 2], "counting")) == [1, 2]
    assert "counting" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the line of the bar is erased
