# SPDX-License-Identifier: Apache-2.0
"""`roadbed batch` on this machine alone: it starts Ray by itself, can be interrupted, and says what it lacks."""

import json
import os
import signal
import subprocess
import sys

import pytest

from roadbed.batch import tasks
from roadbed.batch.batch_run import locked_output
from tests.batch.conftest import SMALL, content, ended, job_in
from tests.children import child
from tests.cli.process import one_line_and_status_2, roadbed, roadbed_process

pytestmark = pytest.mark.long(50)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "config.yaml").write_text(SMALL.dumps())
    return tmp_path


def command(*arguments):
    return [sys.executable, "-m", "roadbed", "batch", *map(str, arguments)]


def test_an_interrupted_batch_can_be_gone_on_from(home, sequences, alone):
    options = (
        *(sequence.location for sequence in sequences[:2]),
        "-o",
        "out",
        "-c",
        "config.yaml",
        "--map",
        "--workers",
        1,
    )
    with (
        (home / "problems.txt").open("w") as problems,
        child(*command(*options, "--json"), cwd=home, stderr=problems) as batch,
    ):
        for line in batch.stdout:
            if json.loads(line)["event"] == "frames":
                batch.send_signal(signal.SIGINT)
                break
        rest = batch.stdout.read()
    assert batch.returncode == 130, (home / "problems.txt").read_text()
    end = next(json.loads(line) for line in rest.splitlines() if '"end"' in line)
    assert (end["stopped"], end["done"] + end["left"]) == ("interrupted", 2)
    assert end["left"] >= 1
    assert not (home / "out" / "unfinished").exists()
    one_line_and_status_2(roadbed("batch", *options, cwd=home), "continue with --resume")
    out = roadbed_process("batch", *options, "--resume", cwd=home)
    assert out.returncode == 0, out.stderr
    assert f"{end['left']} sequences done" in out.stdout
    for sequence in sequences[:2]:
        assert content(home / "out" / "sequences" / sequence.name) == content(alone.of(sequence))


def test_out_of_memory_ends_with_a_clear_summary(home, sequences):
    """Ray's own guard ends every worker: it is told that more than no memory is too much."""
    environment = {**os.environ, "RAY_memory_usage_threshold": "0.0001", "RAY_memory_monitor_refresh_ms": "20"}
    out = subprocess.run(
        command(sequences[0].location, "-o", "out", "-c", "config.yaml", "--workers", 1),
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert out.returncode == 1, out.stderr
    assert "FAILED: out of memory: Ray stopped its worker (4 attempts)" in out.stdout
    assert "1 sequences are not complete; continue with --resume" in out.stdout


WITHOUT_RAY = "import sys; sys.modules['ray'] = None; from roadbed.cli import main; main()"


def test_resuming_a_complete_batch_starts_no_workers(home, sequences):
    """Where Ray cannot even be imported: everything is kept; a changed setting needs workers again."""
    job = job_in(home / "out", map=False)
    with locked_output(job):
        assert ended(tasks.sequence_task(job, sequences[0])).status == "done"
    arguments = ["batch", sequences[0].location, "-o", "out", "-c", "config.yaml", "--resume"]
    run = [sys.executable, "-c", WITHOUT_RAY, *arguments]
    out = subprocess.run(run, cwd=home, capture_output=True, text=True, timeout=900)
    assert out.returncode == 0, out.stderr
    assert "0 sequences done, 1 complete from before" in out.stdout
    assert (home / "out" / "report.html").exists()
    changed = subprocess.run([*run, "--no-layers"], cwd=home, capture_output=True, text=True, timeout=900)
    one_line_and_status_2(changed, "needs the package ray")


def test_without_ray_one_line_shows_what_to_install(home):
    arguments = ["batch", "sim:city?sensor=lux4&frames=1", "-o", "out", "-c", "config.yaml"]
    out = subprocess.run(
        [sys.executable, "-c", WITHOUT_RAY, *arguments], cwd=home, capture_output=True, text=True, timeout=900
    )
    one_line_and_status_2(out, "roadbed batch needs the package ray: in the checkout, pip install -e '.[batch]'")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing/*.bin", "-o", "out"), "found nothing of that name"),
        (("sim:city", "-o", "out", "--ray", "auto", "--workers", "2"), "--workers: expected without --ray"),
        (("sim:city", "-o", "."), "is not empty and not a batch"),
    ],
)
def test_bad_requests_end_in_one_line(home, arguments, message):
    one_line_and_status_2(roadbed("batch", *arguments, cwd=home), message)
