# SPDX-License-Identifier: Apache-2.0
"""No command destroys its input or somebody's results."""

import numpy as np
import pytest

from roadbed.core.frames import Scan
from roadbed.outputs.label import write_label
from roadbed.outputs.pcd import write_pcd
from tests.cli.process import one_line_and_status_2, roadbed


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def sequence(tmp_path):
    """A sequence of two scans as a user has it: labels and boxes that took somebody weeks."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "sequence"
    (folder / "velodyne").mkdir(parents=True)
    for name in ("000000", "000001"):
        road = np.column_stack([rng.uniform(-20, 20, (5000, 2)), rng.normal(-1.7, 0.01, 5000), np.zeros(5000)])
        (folder / "velodyne" / f"{name}.bin").write_bytes(road.astype("<f4").tobytes())
        write_label(folder / "labels" / f"{name}.label", np.full(5000, 40, np.uint32))
    (folder / "objects.jsonl").write_text('{"frame": 0, "objects": []}\n')
    return folder


@pytest.mark.parametrize("options", [(), ("--force",)])
@pytest.mark.parametrize("command", ["run", "segment"])
def test_a_sequence_is_never_overwritten_by_its_own_results(sequence, command, options):
    before = content(sequence)
    one_line_and_status_2(roadbed(command, sequence, "-o", sequence, *options), "never written to")
    assert content(sequence) == before


@pytest.mark.parametrize("options", [(), ("--force",)])
@pytest.mark.parametrize("command", [("run", "sim:city?sensor=vlp16&frames=1"), ("simulate", "city")])
def test_another_sequence_is_never_overwritten(sequence, command, options):
    before = content(sequence)
    one_line_and_status_2(roadbed(*command, "-o", sequence, *options), "was not written by Roadbed")
    assert content(sequence) == before


def test_results_are_kept_until_force_is_given(sequence, tmp_path):
    run = ("run", sequence, "--no-occupancy", "--frames", "1")
    assert roadbed(*run, cwd=tmp_path).returncode == 0
    before = content(tmp_path / "out")
    assert before
    for again in (run, ("segment", sequence), ("demo",), ("simulate", "city", "-o", "out")):
        one_line_and_status_2(roadbed(*again, cwd=tmp_path), "replace them with --force")
    assert content(tmp_path / "out") == before
    assert roadbed("segment", sequence, "--force", cwd=tmp_path).returncode == 0
    names = {path.name for path in content(tmp_path / "out")}
    assert names == {"ground.pcd", "nonground.pcd", "config.yaml", "roadbed-manifest.jsonl"}


def test_a_cloud_is_not_replaced_by_the_ground_found_in_it(tmp_path):
    write_pcd(tmp_path / "ground.pcd", Scan(np.random.default_rng(0).normal(size=(500, 3))))
    before = content(tmp_path)
    one_line_and_status_2(roadbed("segment", "ground.pcd", "-o", ".", cwd=tmp_path), "never written to")
    assert content(tmp_path) == before


def test_a_run_that_fails_at_its_first_scan_keeps_the_old_results(sequence, tmp_path):
    run = ("run", sequence, "--no-occupancy", "--frames", "1", "--force")
    assert roadbed(*run, cwd=tmp_path).returncode == 0
    before = content(tmp_path / "out")
    (sequence / "velodyne" / "000000.bin").write_bytes(b"torn")
    one_line_and_status_2(roadbed(*run, cwd=tmp_path), "000000.bin: length: found 4 bytes")
    assert content(tmp_path / "out") == before


def test_the_viewer_does_not_save_over_anything(sequence):
    before = content(sequence)
    calibration = sequence / "labels" / "000000.label"
    one_line_and_status_2(roadbed("view", sequence, "--save-as", calibration), "exists; name another file")
    one_line_and_status_2(roadbed("view", sequence, "--save-as", calibration, "--force"), "not a configuration")
    assert content(sequence) == before
