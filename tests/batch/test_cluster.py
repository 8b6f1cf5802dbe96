# SPDX-License-Identifier: Apache-2.0
"""A real Ray cluster of two nodes on this machine: whatever is killed or removed, the bytes stay the same."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from roadbed.batch import tasks
from roadbed.batch.batch_run import BatchRun, locked_output, write_summary
from roadbed.batch.engine import Engine
from roadbed.batch.work import do_merge
from roadbed.core.errors import DeviceError, InputError
from tests.batch.conftest import SMALL, content, job_in
from tests.cli.process import roadbed_process
from tests.disks import mounted
from tests.live.processes import PATIENCE

pytestmark = pytest.mark.long(50)

STORE = 80 << 20


def started(start, attempts=3):
    """What `start` gives; on a busy machine a node of Ray takes more than the 30 s after which Ray gives up."""
    for _ in range(attempts - 1):
        with contextlib.suppress(Exception):
            return start()
    return start()


@pytest.fixture(scope="module")
def cluster():
    """A head and one more node, one core each; nothing leaves the machine."""
    environment = pytest.MonkeyPatch()
    environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
    environment.setenv("RAY_AUTH_MODE", "disabled")  # whatever token this user has
    from ray.cluster_utils import Cluster

    # Ray replaces 127.0.0.1 by the machine's address on the network; two test runs need two addresses.
    address = f"127.{1 + os.getpid() // 253 % 253}.{1 + os.getpid() % 253}.1"
    node = {"num_cpus": 1, "object_store_memory": STORE}
    made = started(
        lambda: Cluster(True, head_node_args={**node, "include_dashboard": False, "node_ip_address": address})
    )
    made.second = started(lambda: made.add_node(**node, node_ip_address=f"{address[:-1]}2"))
    yield made
    made.shutdown()
    environment.undo()


@pytest.fixture(scope="module")
def engine(cluster):
    """Ray as the command uses it; its workers stay from test to test."""
    with Engine(cluster.address, attempts=2) as engine:
        yield engine


@pytest.fixture(scope="module")
def expected(alone, sequences):
    """What one process writes for all sequences, with the map of them all."""
    assert next(do_merge(alone, "the map", sequences)).status == "done"
    return results(alone)


def run(job, sequences, engine, tell=lambda progress, event: None):
    """A batch on the cluster, stopped if it hangs."""
    deadline = time.monotonic() + 2 * PATIENCE
    with locked_output(job):
        batch_run = BatchRun(job, sequences, engine, tell)
        progress = batch_run.run(lambda: time.monotonic() > deadline)
        write_summary(job, batch_run.complete(), progress)
        return progress


def results(job):
    return {name: data for name, data in content(job.folder).items() if name.startswith(("sequences/", "map/"))}


def hold(monkeypatch, held):
    """Workers wait in the middle of a sequence, after its first frame, as long as `held(sequence)` says so."""
    task, patience = tasks.sequence_task, PATIENCE

    def slow_task(job, sequence):
        for told in task(job, sequence):
            yield told
            deadline = time.monotonic() + patience  # a worker that nobody stops goes on, and the test fails
            while held(sequence) and time.monotonic() < deadline:
                time.sleep(0.02)

    monkeypatch.setattr(tasks, "sequence_task", slow_task)


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_killed_worker_and_a_removed_node_lose_nothing(cluster, engine, sequences, expected, tmp_path, monkeypatch):
    removed_raylet = cluster.second.all_processes["raylet"][0].process.pid
    struck, workers = tmp_path / "struck", {}
    hold(monkeypatch, lambda sequence: not struck.exists())

    def sabotage(progress, event):
        """Once each of the two nodes is in the middle of a sequence."""
        if event["event"] != "frames" or struck.exists():
            return
        workers[parent(event["worker"]) == removed_raylet] = event["worker"]
        if len(workers) == 2:
            os.kill(workers[False], signal.SIGKILL)
            cluster.remove_node(cluster.second, allow_graceful=False)
            struck.touch()

    job = job_in(tmp_path / "out")
    progress = run(job, sequences, engine, sabotage)
    assert (progress.done, progress.failures, progress.retries) == (3, {}, 2)
    assert results(job) == expected
    assert not job.unfinished.exists()


def test_a_worker_that_always_dies_ends_in_a_failure_and_the_rest_goes_on(
    engine, sequences, expected, tmp_path, monkeypatch
):
    doomed = sequences[1].name

    def sabotage(progress, event):
        if event["event"] == "frames" and event["sequence"] == doomed:
            os.kill(event["worker"], signal.SIGKILL)

    job = job_in(tmp_path / "out")
    with monkeypatch.context() as patched:
        hold(patched, lambda sequence: sequence.name == doomed)
        progress = run(job, sequences, engine, sabotage)
    assert progress.failures == {doomed: "its worker was killed (2 attempts)"}
    assert progress.done == 2
    page = (job.folder / "report.html").read_text()
    assert "its worker was killed (2 attempts)" in page
    assert page.count("data:image/webp") == 4, "two lowest frames of each complete sequence"
    assert "lowest first" in page
    assert "slowest first" in page
    progress = run(replace(job, resume=True), sequences, engine)
    assert (progress.done, progress.kept, progress.failures) == (1, 2, {})
    assert results(job) == expected, "also the map, which has all sequences now"


def test_a_full_disk_stops_the_rest_and_can_be_gone_on_from(engine, sequences, expected, tmp_path):
    with mounted(tmp_path / "disk", "size=700k") as disk:
        job = job_in(disk / "out")
        progress = run(job, sequences, engine)
        assert progress.stopped == "the disk is full"
        assert progress.failures
        assert all("No space left on device" in reason for reason in progress.failures.values())
        assert results(job) == {}
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        progress = run(replace(job, resume=True), sequences[:1], engine)
        assert (progress.failures, progress.left) == ({}, 0)
        done = {name: data for name, data in results(job).items() if name.startswith("sequences/")}
        assert done == {name: data for name, data in expected.items() if sequences[0].name in name}


def test_a_corrupt_sequence_is_reported_and_the_command_ends_with_1(cluster, sequences, expected, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(sequences[0].location, broken)
    (broken / "velodyne" / "000001.bin").write_bytes(b"torn")
    (tmp_path / "config.yaml").write_text(SMALL.dumps())
    options = ("-o", "out", "--ray", cluster.address, "-c", "config.yaml", "--map", "--json")
    out = roadbed_process("batch", sequences[2].location, broken, *options, cwd=tmp_path)
    assert out.returncode == 1, out.stderr
    lines = [json.loads(line) for line in out.stdout.splitlines()]
    (failed,) = (line for line in lines if line["event"] == "failed")
    assert failed["sequence"].startswith("broken-")
    assert "000001.bin: length: found 4 bytes" in failed["reason"]
    assert (lines[-1]["event"], lines[-1]["done"]) == ("end", 1)
    home = f"sequences/{sequences[2].name}/"
    done = {name: data for name, data in content(tmp_path / "out").items() if name.startswith(home)}
    assert done == {name: data for name, data in expected.items() if name.startswith(home)}


def test_sequences_share_gpus_and_one_that_is_not_there_is_reported_at_once():
    engine = Engine(None, gpu_share=1 / 8)
    for cores, slots in ((4.0, 4), (16.0, 16), (64.0, 16)):
        engine.check({"CPU": cores, "GPU": 2.0})
        assert engine.slots == slots
    with pytest.raises(DeviceError, match="Ray found no GPU"):
        engine.check({"CPU": 2.0})
    with pytest.raises(InputError, match="4 cores per worker: Ray found 2"):
        Engine(None, cpus=4).check({"CPU": 2.0})
