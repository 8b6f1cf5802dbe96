# SPDX-License-Identifier: Apache-2.0
"""Ray on this machine: closed to others, gone without a trace, and quick to say that it cannot start."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from roadbed.batch.engine import Engine
from roadbed.core.errors import DeviceError
from tests.children import child
from tests.conftest import ROOT

pytestmark = pytest.mark.long(40)
ENGINE = """
import os, subprocess, sys, time
from roadbed.batch.engine import Engine

with Engine(None, 1) as engine:
    print(os.stat(os.environ["RAY_AUTH_TOKEN_PATH"]).st_mode & 0o777 == 0o600, flush=True)
    listening = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
    print({line.split()[3].rpartition(":")[0] for line in listening.splitlines()}, flush=True)
    stranger = "import ray; ray.init(address=%r); print('let in')" % engine._ray.get_runtime_context().gcs_address
    limit = 600.0
    for mode in ("token", "disabled"):  # if refused, Ray goes on trying: stop after three times a user's time
        begin = time.monotonic()
        with subprocess.Popen(
            [sys.executable, "-c", stranger],
            env={**os.environ, "RAY_AUTH_MODE": mode},
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                answer = process.communicate(timeout=limit)[0]
            except subprocess.TimeoutExpired:
                process.kill()
                answer = process.communicate()[0]
        print(mode, "let in" in answer, flush=True)
        limit = 3 * (time.monotonic() - begin) + 5
"""
FOLDER = """
import os, signal
from roadbed.batch.engine import temporary_folder
with temporary_folder() as folder:
    (folder / "deep").mkdir()
    (folder / "deep" / "file").touch()
    print(folder, flush=True)
    if os.environ["END"] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""
ABORTS = """
import ray._private.services as services
from roadbed.batch.engine import Engine
from roadbed.core.errors import DeviceError

services.RAYLET_EXECUTABLE = {executable!r}
try:
    with Engine(None, 1):
        print("started")
except DeviceError as error:
    print(error)
"""


def start(code, **environment):
    return child(sys.executable, "-c", code, env={**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment})


def test_only_this_user_reaches_it():
    """In a network of its own, where nothing else listens."""
    command = 'ip link set lo up && exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "-rn", "sh", "-c", command, sys.executable, ENGINE],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=900,
    )
    private, listening, with_token, without_token = done.stdout.splitlines()
    assert private == "True"
    assert eval(listening) <= {"127.0.0.1", "[::ffff:127.0.0.1]"}
    assert without_token == "disabled False"
    assert with_token == "token True"


def test_a_killed_batch_leaves_no_folder():
    for end in ("killed", "by itself"):
        with start(FOLDER, END=end) as process:
            folder = Path(process.stdout.readline().strip())
            assert process.wait(60) == (-signal.SIGKILL if end == "killed" else 0)
        deadline = time.monotonic() + 60
        while folder.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert folder.name.startswith("roadbed-")
        assert not folder.exists()


def test_a_raylet_that_aborts_is_started_once_more(tmp_path):
    """After the 30 s in which Ray gives up."""
    import ray._private.services as services

    raylet, tried = tmp_path / "raylet", tmp_path / "tried"
    raylet.write_text(f'#!/bin/sh\n[ -e {tried} ] && exec {services.RAYLET_EXECUTABLE} "$@"\ntouch {tried}\nexit 134\n')
    raylet.chmod(0o755)
    environment = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # as of the engine
    with start(ABORTS.format(executable=str(raylet)), **environment) as process:
        assert process.stdout.read() == "started\n"


@pytest.mark.parametrize(
    ("address", "problem", "attempts"),
    [
        (None, "The current node timed out\nduring startup.", 3),
        (None, "no room on the disk", 1),
        ("10.0.0.1:6379", "The current node timed out during startup.", 1),
    ],
)
def test_what_ray_says_when_it_does_not_start_is_one_line(address, problem, attempts):
    tried = []

    def refuse(**_):
        tried.append(1)
        raise Exception(problem)

    engine = Engine(address)
    engine._ray = SimpleNamespace(init=refuse)
    where, line = address or "this machine", " ".join(problem.split())
    with pytest.raises(DeviceError, match=rf"Ray on {where} does not answer \({line}\)"):
        engine._start({})
    assert len(tried) == attempts
