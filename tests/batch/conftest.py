# SPDX-License-Identifier: Apache-2.0
"""Small recorded sequences, and the same batch done in this process alone, to compare every byte with."""

import os
from pathlib import Path

import pytest

from roadbed import Config
from roadbed.batch import tasks
from roadbed.batch.job import Job
from roadbed.batch.manifest import RUN_DEPENDENT
from roadbed.batch.sequences import InputSequence, find_sequences
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.sequence_folder import PARTS, record_sequence
from roadbed.sources.read_options import ReadOptions
from roadbed.sources.simulator import SimulatorSource

SMALL = Config.parse({"occupancy": {"grid": {"length": 20, "width": 20}}})
FRAMES = 8

# Ray puts its workers behind everything else that runs (nice 15): beside other tests they would hardly ever run.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112


@pytest.fixture(scope="session")
def recordings(tmp_path_factory) -> Path:
    """Three sequences with true labels and poses, as somebody's data set."""
    home = tmp_path_factory.mktemp("recordings")
    for seed in range(3):
        source = SimulatorSource("sim:city", sensor="lux4", frames=FRAMES, seed=seed)
        out = OutputFolder(home / f"sequence-{seed}", PARTS, command="recorded for a test")
        assert len(list(record_sequence(source.sequence, out, reach=2.0))) == FRAMES
    return home


@pytest.fixture(scope="session")
def sequences(recordings) -> list[InputSequence]:
    return find_sequences([f"{recordings}/sequence-*"], ReadOptions())


def job_in(folder: Path, **changes) -> Job:
    folder.mkdir(exist_ok=True)
    return Job(**{"folder": folder, "config": SMALL, "command": "roadbed batch", "map": True, **changes})


@pytest.fixture(scope="session")
def alone(tmp_path_factory, sequences) -> Job:
    """Every sequence done in this process, one after the other, without Ray."""
    job = job_in(tmp_path_factory.mktemp("alone"))
    for sequence in sequences:
        *frames, outcome = tasks.sequence_task(job, sequence)
        assert (outcome.status, sum(told.count for told in frames)) == ("done", FRAMES)
    return job


def content(folder: Path) -> dict[str, bytes]:
    """Every file that must be the same each time, by its name."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in RUN_DEPENDENT)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def ended(told):
    """How a task ended; what it told on the way is dropped."""
    return list(told)[-1]
