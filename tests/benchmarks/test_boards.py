# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks boards`: processes are limited as a board would limit them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import boards
from benchmarks.boards import Board, board_rows, clock_ghz, limited, run_limited
from roadbed.core.errors import DeviceError

GROUPS = Path("/sys/fs/cgroup")
MAY_LIMIT = os.access(GROUPS / "cpu", os.W_OK) or os.access(GROUPS / "cgroup.procs", os.W_OK)
BUSY = """
import os, time
begin, worked = time.perf_counter(), time.process_time()
while time.perf_counter() - begin < 1: pass
print((time.process_time() - worked) / (time.perf_counter() - begin), len(os.sched_getaffinity(0)))
"""


def test_limits_that_this_user_may_not_set_are_refused_in_one_line(tmp_path):
    missing = limited(Board(1, 1.0, 512), 2.5, tmp_path / "missing")
    with pytest.raises(DeviceError, match=r"need control groups .*missing: No such file"), missing:
        pass


def test_both_versions_of_control_groups_get_the_limits(tmp_path):
    def written(groups: Path) -> dict[str, str]:
        files: dict[str, str] = {}
        try:
            with limited(Board(2, 1.0, 512), 2.5, groups) as processes:
                files = {f.name: f.read_text() for f in groups.rglob("*") if f.is_file() and f.name.count(".") == 1}
                assert {path.name for path in processes} == {"cgroup.procs"}
        except OSError:  # folders of ordinary files are not empty
            pass
        return files

    first, second = tmp_path / "one", tmp_path / "two"
    for name in ("cpu", "memory"):
        (first / name).mkdir(parents=True)
    second.mkdir()
    (second / "cgroup.controllers").touch()
    limits = {"cpu.cfs_period_us": "10000", "cpu.cfs_quota_us": "8000", "memory.limit_in_bytes": str(512 * 2**20)}
    assert written(first) == limits
    found = written(second)
    assert found["cpu.max"] == "8000 10000"
    assert found["memory.max"] == str(512 * 2**20)


@pytest.mark.skipif(not MAY_LIMIT, reason="only root may limit processes")
def test_a_limited_process_gets_its_share_and_no_more_memory():
    share, cores = run_limited(Board(1, 0.5, 512), 2.5, [sys.executable, "-c", BUSY]).stdout.split()
    assert float(share) < 0.3
    assert cores == "1"
    enough, too_little = Board(1, 2.5, 512), Board(1, 2.5, 100)
    command = [sys.executable, "-c", "print(len(bytearray(200 << 20)))"]
    assert run_limited(enough, 2.5, command).stdout.strip() == str(200 << 20)
    assert run_limited(too_little, 2.5, command).returncode == -9


def test_a_recording_is_processed_and_what_does_not_fit_is_said(monkeypatch, tmp_path):
    def run(board, ghz, command):
        done = subprocess.run(command, capture_output=True, text=True)
        if board.megabytes < 100:
            done.returncode = -9
        return done

    monkeypatch.setattr(boards, "run_limited", run)
    monkeypatch.setattr(boards, "WORK", (("default", "ground"),))
    fits, does_not = board_rows(2.5, (Board(1, 1.0, 512), Board(1, 1.0, 64)), ("lux4",), frames=12)
    assert fits["hz"] == pytest.approx(1e3 / fits["ms"], rel=0.1)
    assert 100 < fits["used_megabytes"] < 1000
    assert (does_not["hz"], does_not["used_megabytes"]) == (None, "too much")


def test_the_clock_is_the_fastest_cores():
    assert clock_ghz("cpu MHz\t\t: 1500.0\ncpu MHz\t\t: 2500.5\n") == 2.5005
    assert clock_ghz("BogoMIPS\t: 50.00\n") is None
