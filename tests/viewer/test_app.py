# SPDX-License-Identifier: Apache-2.0
"""The server: where it listens, what it says when it cannot, what remains when it stops."""

import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

import roadbed
from roadbed.cli.view import opening_frame
from roadbed.core.errors import DeviceError
from roadbed.viewer import Viewer
from roadbed.viewer.app import HOST
from tests.children import child

pytestmark = pytest.mark.usefixtures("viser")


def test_listens_on_this_machine_only_and_leaves_nothing_behind(short_sequence, capsys, until):
    with Viewer(short_sequence(), port=0, occupancy=False) as viewer:
        port = viewer.port
        assert viewer.address == f"http://127.0.0.1:{port}"
        with socket.create_connection((HOST, port), timeout=10):
            pass
        until(lambda: viewer.player.shown, "the first frame")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("roadbed-")]
    assert capsys.readouterr().out == ""


def test_opens_at_the_frame_it_is_told(short_sequence, until):
    with Viewer(short_sequence(), port=0, occupancy=False, frame=3) as viewer:
        until(lambda: viewer.player.shown, "a frame")
        assert viewer.player.shown.index == 3


def test_a_recording_opens_where_velocities_are_known(short_sequence):
    assert opening_frame(short_sequence()) == 7  # its last
    assert opening_frame(roadbed.open("sim:city?frames=60")) == 15
    assert opening_frame(iter(())) == 0  # live


def test_port_in_use_gives_one_line_with_the_alternative(short_sequence):
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DeviceError, match=rf"^port {port} on 127\.0\.0\.1 is in use.*: try --port \d+$"):
            Viewer(short_sequence(), port=port)


def test_an_address_that_is_not_ours_is_reported(short_sequence):
    with pytest.raises(DeviceError, match=r"host 'no\.such\.host\.invalid'"):
        Viewer(short_sequence(), host="no.such.host.invalid")


@pytest.mark.parametrize(
    ("host", "address", "reach"),
    [
        ("127.0.0.1", r"http://127\.0\.0\.1:\d+ ", "only this machine can reach it"),
        ("0.0.0.0", r"http://[\d.]+:\d+/\?token=\S{20,} ", "anyone with this address can control it"),
    ],
)
def test_the_command_shows_where_and_for_whom_and_stops_when_asked(host, address, reach):
    command = [sys.executable, "-m", "roadbed", "view", "sim:city?sensor=vlp16&frames=2", "--no-occupancy"]
    command += ["--host", host, "--port", "0", "--allow-host", "a.example", "--allow-host", "b.example"]
    with child(*command) as process:
        line = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=600) == 0
    assert re.match(f"viewer at {address}", line)
    assert reach in line


def test_the_command_ends_with_one_line_when_the_port_is_taken():
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "roadbed", "view", "sim:city?sensor=vlp16&frames=2", "--port", port]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"roadbed: port {port} on 127.0.0.1 is in use")
    assert ended.stderr.count("\n") == 1
