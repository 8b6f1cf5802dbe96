# SPDX-License-Identifier: Apache-2.0
"""The server: where it listens, what it says when it cannot, what remains when it stops."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading

import pytest

from roadbed.errors import DeviceError

pytest.importorskip("viser")
from roadbed.viewer import Viewer
from roadbed.viewer.app import HOST


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


def test_listens_on_this_machine_only_and_leaves_nothing_behind(short_drive, capsys, until):
    port = free_port()
    with Viewer(short_drive(), port=port, occupancy=False) as viewer:
        assert viewer.address == f"http://127.0.0.1:{port}"
        with socket.create_connection((HOST, port), timeout=10):
            pass
        until(lambda: viewer.player.shown, "the first frame", 300)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("roadbed-")]
    assert capsys.readouterr().out == ""


def test_port_in_use_gives_one_line_with_the_alternative(short_drive):
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DeviceError, match=rf"^port {port} on 127\.0\.0\.1 is in use.*: try --port \d+$"):
            Viewer(short_drive(), port=port)


def test_an_address_that_is_not_ours_is_told(short_drive):
    with pytest.raises(DeviceError, match=r"host 'no\.such\.host\.invalid'"):
        Viewer(short_drive(), host="no.such.host.invalid")


def test_the_command_says_who_can_reach_it_and_stops_when_asked():
    command = [sys.executable, "-m", "roadbed", "view", "sim:city?sensor=vlp16&frames=2", "--no-occupancy"]
    with subprocess.Popen([*command, "--port", str(free_port())], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "http://127.0.0.1:" in (line := process.stdout.readline())
        assert "only this machine can reach it" in line
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130


def test_the_command_ends_with_one_line_when_the_port_is_taken():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "roadbed", "view", "sim:city?sensor=vlp16&frames=2", "--port", port]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"roadbed: port {port} on 127.0.0.1 is in use")
    assert ended.stderr.count("\n") == 1
