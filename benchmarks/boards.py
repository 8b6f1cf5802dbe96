# SPDX-License-Identifier: Apache-2.0
"""What runs on a small board: a recording is processed by a process with few cores, a share of their clock and little
memory, as control groups of Linux limit it.

A share of the clock stands for a slower processor of the same kind; a board's own does less or more per cycle.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from roadbed.core.errors import DeviceError

SENSORS = ("lux4", "vlp16", "hdl32e", "hdl64e")
WORK = (("default", "ground"), ("default", "chain"), ("small", "chain"))  # preset, and what is computed
PERIOD_US = 10_000  # after which the share of the clock is given anew
_GROUPS = Path("/sys/fs/cgroup")
_MEGABYTE = 2**20


class Board(NamedTuple):
    """The limits of a process."""

    cores: int
    ghz: float  # of each core
    megabytes: int


BOARDS = (Board(1, 1.0, 512), Board(1, 1.5, 512), Board(2, 1.0, 512), Board(2, 1.5, 1024))


def clock_ghz(cpuinfo: str) -> float | None:
    """The clock of this machine's cores in the text of /proc/cpuinfo; None where it has none, as on ARM."""
    found = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", cpuinfo, re.MULTILINE)]
    return max(found) / 1000 if found else None


@contextmanager
def limited(board: Board, machine_ghz: float, groups: Path = _GROUPS) -> Iterator[list[Path]]:
    """Control groups with the limits of a board: a process that writes its number to these files is limited."""
    unified = (groups / "cgroup.controllers").is_file()
    quota = round(PERIOD_US * board.cores * min(board.ghz / machine_ghz, 1.0))
    memory, name = board.megabytes * _MEGABYTE, f"roadbed-board-{os.getpid()}"
    limits: dict[str, str | int] = (
        {"cpu.max": f"{quota} {PERIOD_US}", "memory.max": memory}
        if unified
        else {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": quota, "memory.limit_in_bytes": memory}
    )
    made: list[Path] = []
    try:
        for limit, value in limits.items():
            group = groups / ("" if unified else limit.split(".")[0]) / name
            if group not in made:
                group.mkdir()
                made.append(group)
            (group / limit).write_text(str(value))
        yield [group / "cgroup.procs" for group in made]
    except OSError as error:
        reason = error.strerror or error
        raise DeviceError(
            f"limits of a board need control groups that this user may make: {groups}: {reason}"
        ) from None
    finally:
        for group in made:
            group.rmdir()


def run_limited(board: Board, machine_ghz: float, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The command under the limits of a board; killed where it needs more memory."""
    with limited(board, machine_ghz) as groups:

        def enter() -> None:
            for group in groups:
                group.write_text(str(os.getpid()))
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: board.cores])

        return subprocess.run(command, preexec_fn=enter, capture_output=True, text=True)


def board_rows(
    machine_ghz: float, boards: Sequence[Board] = BOARDS, sensors: Sequence[str] = SENSORS, frames: int = 40
) -> Iterator[dict[str, Any]]:
    """One row per sensor, board and work: milliseconds per scan, scans per second, and the most memory used."""
    size = ["--frames", str(frames), "--reach", "10", "--spacing", "1"]
    for sensor in sensors:
        with TemporaryDirectory(prefix="roadbed-boards-") as folder:
            drive = Path(folder, "drive")
            simulate = [sys.executable, "-m", "roadbed", "simulate", "city", "-o", str(drive), "--json", "--seed", "0"]
            made = _checked(subprocess.run([*simulate, *size, "--sensor", sensor], capture_output=True, text=True))
            for board in boards:
                for preset, work in WORK:
                    command = [sys.executable, "-m", "benchmarks.boards", str(drive), preset, work]
                    done = run_limited(board, machine_ghz, command)
                    points = made["points_per_frame"]
                    case = {"sensor": sensor, "points": points, **board._asdict(), "preset": preset, "work": work}
                    yield {**case, **_result(done)}


def _result(done: subprocess.CompletedProcess[str]) -> Mapping[str, Any]:
    return {"ms": None, "hz": None, "used_megabytes": "too much"} if done.returncode == -9 else _checked(done)


def _checked(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON that a command printed."""
    if done.returncode:
        raise DeviceError(f"{' '.join(done.args)}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
    return found


def main(drive: str, preset: str, work: str) -> None:
    """Process a recording, and print the mean time of a scan after the first ten: a limited process runs in bursts."""
    from time import perf_counter

    import numba

    import roadbed
    from roadbed import Config, GroundFilter, Pipeline

    numba.set_num_threads(min(numba.get_num_threads(), len(os.sched_getaffinity(0))))
    config = Config.preset(preset)
    process: Any = GroundFilter(config) if work == "ground" else Pipeline(config)
    times = []
    for scan in roadbed.open(drive):
        begin = perf_counter()
        process(scan)
        times.append(perf_counter() - begin)
    seconds = sum(times[10:]) / len(times[10:])
    most_kilobytes = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    used = round(int(most_kilobytes[0]) / 1024)
    print(json.dumps({"ms": round(1e3 * seconds, 1), "hz": round(1 / seconds, 1), "used_megabytes": used}))


if __name__ == "__main__":
    main(*sys.argv[1:])
