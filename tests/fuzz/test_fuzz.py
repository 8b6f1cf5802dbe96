# SPDX-License-Identifier: Apache-2.0
"""A bounded share of the fuzzing with a fixed seed, and that the fuzzing itself sees what it should."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

from roadbed.core.errors import InputError
from tests.conftest import ROOT
from tests.fuzz.campaign import run
from tests.fuzz.targets import Target, all_targets

pytestmark = pytest.mark.long(30)

CASES = 150


def test_every_reader_takes_a_share_of_cases(tmp_path):
    """In a process of its own, where no earlier test has threads running or memory taken."""
    options = ["--cases", str(CASES), "--seconds", "700", "--seed", "0", "--findings", str(tmp_path)]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", *options], capture_output=True, text=True, cwd=ROOT, timeout=800
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for target in all_targets():
        assert f"{target.name:<16}{CASES:>12}" in ended.stdout


def hang(data, folder):
    while True:
        pass


def crash(data, folder):
    os.abort()


def take_memory(data, folder):
    np.ones(300 << 20, np.uint8)


def raise_something_else(data, folder):
    raise KeyError("x")


def give_two_lines(data, folder):
    error = InputError("one line")
    error.args = ("two\nlines",)
    raise error


@pytest.mark.parametrize(
    ("misbehave", "found"),
    [
        (hang, "hung: more than 2 s"),
        (crash, "crashed: signal 6"),
        (take_memory, "bytes of memory for 3 bytes"),
        (raise_something_else, "KeyError: 'x'"),
        (give_two_lines, "more than one line"),
    ],
)
def test_misbehaviour_is_found_and_its_input_kept(tmp_path, misbehave, found):
    def now_and_then(data, folder):
        if data == b"bad":
            misbehave(data, folder)

    target = Target("odd one", lambda rng: b"bad" if rng.random() < 0.1 else b"good", now_and_then)
    report = run([target], seed=1, seconds=600, folder=tmp_path, most=20)
    assert report.cases == {"odd one": 20}
    assert len(report.findings) == 1
    assert found in report.findings[0]
    assert {path.read_bytes() for path in tmp_path.glob("odd-one-*.input")} == {b"bad"}


def test_a_run_ends_when_it_is_told(tmp_path):
    target = Target("idle", lambda rng: b"", lambda data, folder: time.sleep(0.001))
    begin = time.monotonic()
    report = run([target], seed=0, seconds=4, folder=tmp_path)
    assert 4 <= time.monotonic() - begin < 120
    assert report.cases["idle"] > 20
