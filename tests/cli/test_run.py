# SPDX-License-Identifier: Apache-2.0
"""A whole run from the command line: every file it promises, and numbers that fit the sequence."""

import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from roadbed.config import Config
from roadbed.core.frames import Label
from roadbed.outputs.label import semantickitti_classes
from tests.children import child
from tests.cli.process import roadbed


def test_run_writes_labels_layers_objects_configuration_and_report(tmp_path):
    out = roadbed("run", "sim:city?sensor=vlp16&frames=6", "-o", tmp_path / "out", "--map", tmp_path / "map", "--json")
    assert out.returncode == 0, out.stderr
    facts = json.loads(out.stdout)
    assert facts["frames"] == 6
    assert facts["scores"]["F1"] > 95
    assert Config.load(tmp_path / "out" / "config.yaml") == Config()
    names = sorted(path.stem for path in (tmp_path / "out" / "labels").iterdir())
    assert len(names) == 6
    for name in names:
        labels = np.fromfile(tmp_path / "out" / "labels" / f"{name}.label", np.uint32)
        layers = np.load(tmp_path / "out" / "layers" / f"{name}.npz", allow_pickle=False)
        np.testing.assert_array_equal(labels, semantickitti_classes(layers["ground.label"]))
        np.testing.assert_array_equal(labels == 40, layers["ground.label"] == Label.GROUND)
        total = sum(layers[f"occupancy.{part}"] for part in ("static", "dynamic", "free", "unknown"))
        np.testing.assert_allclose(total, 1, atol=1e-4)
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    assert list((tmp_path / "map").iterdir())


def test_a_run_that_is_stopped_keeps_its_report(tmp_path):
    """By SIGTERM, which ends a process at once where nothing waits for it; the other signals: test_cli.py."""
    command = [sys.executable, "-m", "roadbed", "run", "sim:city?sensor=vlp16&frames=400", "--no-occupancy"]
    command += ["-o", str(tmp_path / "out"), "--map", str(tmp_path / "map")]
    with child(*command, stderr=subprocess.PIPE) as run:
        labels = tmp_path / "out" / "labels"
        while run.poll() is None and not (labels.is_dir() and len(list(labels.iterdir())) > 2):
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        out, err = run.communicate(timeout=600)
    assert run.returncode == 130, err
    count = int(re.search(r"interrupted after (\d+) of 400 scans", out)[1])
    assert 3 <= count == len(list(labels.iterdir())) < 400
    assert f"{count} frames" in (tmp_path / "out" / "report.html").read_text()
    assert list((tmp_path / "map").iterdir())


@pytest.mark.parametrize("sensor", ["vlp16", "lux4"])
def test_simulated_folder_reads_back_and_scores_like_the_simulation(tmp_path, sensor):
    written = roadbed("simulate", "city", "-o", tmp_path / "sequence", "--frames", "2", "--sensor", sensor, "--json")
    assert written.returncode == 0, written.stderr
    scored, simulated = (
        json.loads(roadbed("evaluate", "ground", source, "--json").stdout)
        for source in (tmp_path / "sequence", f"sim:city?sensor={sensor}&frames=2")
    )
    assert scored["frames"] == 2
    assert scored["protocol"] == "patchwork++"
    assert scored["f1"] > 30
    assert scored["f1"] == pytest.approx(simulated["f1"], abs=0.05)
    assert {"precision", "recall", "f1", "iou", "median_ms", "per_frame"} <= set(scored)
