# SPDX-License-Identifier: Apache-2.0
"""The ROS 1 node with a real master: a drive is played, the node runs, a third process sees what comes out."""

import ctypes
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
from xmlrpc.client import ServerProxy

import numpy as np
import pytest

from roadbed.outputs.ros_messages.results import TOPICS
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources.bags.type_names import DIAGNOSTICS
from tests.conftest import ROOT, require
from tests.live.drive import SCANS, check_clouds, drive_records
from tests.live.processes import PATIENCE, Processes, wait_until
from tests.reserved import free_port

pytestmark = pytest.mark.long(30)

PYTHON = ROOT / ".venv-ros" / "bin" / "python"
HERE = ROOT / "tests" / "live"


@pytest.fixture
def graph(tmp_path):
    """A master on loopback, and processes that know it."""
    require(shutil.which("roscore") is not None, "no roscore: apt-get install ros-core")
    require(PYTHON.exists(), "no environment with rospy: make .stamps/ros")
    port = free_port()
    environment = {
        "ROS_MASTER_URI": f"http://127.0.0.1:{port}",
        "ROS_IP": "127.0.0.1",
        "ROS_HOME": str(tmp_path),
        "PATH": f"/usr/bin:{os.environ['PATH']}",  # roscore's own Python before any environment's
    }
    with Processes(tmp_path, environment) as processes:
        processes.port = port
        processes.folder = tmp_path
        yield processes


def start_master(graph):
    master = graph.start("roscore", "/usr/bin/roscore", "-p", str(graph.port))
    graph.wait_for("roscore", "started core service")
    return master


def start_bare_master(graph, name):
    """What roscore starts, without its parent: it can be killed and leaves nothing behind."""
    master = graph.start(name, "/usr/bin/rosmaster", "--core", "-p", str(graph.port))
    wait_until(lambda: is_listening(graph.port))
    return master


def is_listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def start_node(graph, *options):
    node = graph.start("node", PYTHON, "-m", "roadbed", "ros1", "/points", "--odometry", "/odom", *options)
    graph.wait_for("node", "Ctrl+C stops it")
    return node


def start_player(graph, name, period, turns=1):
    path = graph.folder / f"{name}.pickle"
    records = [
        (topic, kind, data, due + turn * SCANS * period)
        for turn in range(turns)
        for topic, kind, data, due in drive_records(RosMessages(1), period, start=1000.0 + 100 * turn)
    ]
    path.write_bytes(pickle.dumps(records))
    return graph.start(name, PYTHON, HERE / "ros1_player.py", path, name)


def start_checker(graph, name, count, topics):
    path = graph.folder / f"{name}-seen.pickle"
    kinds = [f"{topic}={kind.replace('/msg/', '/')}" for topic, kind in topics.items()]
    process = graph.start(name, PYTHON, HERE / "ros1_checker.py", path, str(count), *kinds)
    graph.wait_for(name, "listening")

    def seen():
        assert process.wait(PATIENCE) == 0
        return pickle.loads(path.read_bytes())

    return seen


def test_a_drive_goes_through_the_node_and_nothing_is_lost(graph):
    start_master(graph)
    settings = graph.folder / "settings.yaml"
    settings.write_text("live: {queue: 8, pose_wait: 20}\n")
    node = start_node(graph, "--on-road", "--config", settings)
    topics = {f"/roadbed/{name}": kind for name, kind in TOPICS.items() if name != "tf"}
    checker = start_checker(graph, "checker", SCANS, topics)
    start_player(graph, "player", period=0.5)
    seen = checker()
    assert graph.stop(node, signal.SIGTERM) == 0
    messages = RosMessages(1)
    arrived = {topic: [messages.from_bytes(data, topics[topic]) for data in found] for topic, found in seen.items()}
    sent = [
        messages.from_bytes(data, kind) for topic, kind, data, _ in drive_records(messages, 0.5) if topic == "/points"
    ]
    check_clouds(sent, arrived["/roadbed/labelled"])
    assert f"{SCANS} scans in, {SCANS} out, 0 dropped, 0 refused" in graph.said("node")
    assert "without pose" not in graph.said("node")
    last = arrived["/roadbed/elevation"][-1]
    assert last.layers == ["elevation", "variance", "slope_x", "slope_y", "traversability"]
    assert np.isfinite(last.data[0].data).any()
    assert max(arrived["/roadbed/occupancy"][-1].data) > 50
    assert len(arrived["/roadbed/velocities"]) == SCANS


def test_trouble_on_the_graph_is_reported_and_survived(graph):
    """Frames that TF does not join, a publisher that vanishes, a master that dies and returns."""
    master = start_bare_master(graph, "master")
    node = start_node(graph, "--no-occupancy", "--vehicle", "chassis")
    first = start_player(graph, "first", period=0.05)
    graph.wait_for("first", "played")
    graph.wait_for("node", "known frames: base_link, velodyne")
    first.kill()
    first.wait(PATIENCE)
    master.kill()
    master.wait(PATIENCE)
    graph.wait_for("node", "the master does not answer")
    start_bare_master(graph, "new-master")
    graph.wait_for("node", "registered again")
    checker = start_checker(graph, "checker", 1, {"/roadbed/labelled": TOPICS["labelled"], "/diagnostics": DIAGNOSTICS})
    start_player(graph, "second", period=0.2)
    found = checker()
    assert RosMessages(1).from_bytes(found["/diagnostics"][-1], DIAGNOSTICS).status[0].name == "roadbed: pipeline"
    assert graph.stop(node) == 0
    wait_until(lambda: "scans in" in graph.said("node"))


FALSE_MASTER = """
import sys
from xmlrpc.server import SimpleXMLRPCServer
server = SimpleXMLRPCServer(("127.0.0.1", int(sys.argv[1])), logRequests=False)
server.register_function(lambda name: [1, "", [[], [], []]], "getSystemState")
server.register_function(lambda *given: 1 / 0, "registerPublisher")
print("ready", flush=True)
server.serve_forever()
"""


def test_a_master_that_dies_during_the_registration_is_found_again(graph):
    """And the next one knows everything again: /rosout and the logger services too."""
    master = start_bare_master(graph, "master")
    node = start_node(graph, "--no-occupancy")
    state = known_to_master(graph)
    assert "/rosout" in state[0]
    assert "/roadbed/get_loggers" in state[2]
    for turn in range(2):
        graph.stop(master, signal.SIGKILL)
        graph.wait_for("node", "the master does not answer", turn + 1)
        # It answers, then fails in the middle of the registration.
        name = f"false-{turn}"
        false = graph.start(name, "/usr/bin/python3", "-c", FALSE_MASTER, str(graph.port))
        graph.wait_for("node", "the master answers with Fault", turn + 1)
        graph.stop(false, signal.SIGKILL)
        master = start_bare_master(graph, f"master-{turn}")
        graph.wait_for("node", "registered again", turn + 1)
        wait_until(lambda: known_to_master(graph) == state, lambda: f"{known_to_master(graph)} and {state}")
    assert "Traceback" not in graph.said("node")
    assert graph.stop(node) == 0


def known_to_master(graph):
    """Topics published, topics subscribed and services of the node."""
    state = ServerProxy(f"http://127.0.0.1:{graph.port}").getSystemState("/test")[2]
    return [{entry for entry, nodes in kind if "/roadbed" in nodes} for kind in state]


def test_a_subscriber_that_is_too_slow_is_named_and_keeps_nobody_up(graph):
    """One stands still with its connection open, another gets everything meanwhile."""
    start_bare_master(graph, "master")
    settings = graph.folder / "settings.yaml"
    settings.write_text("live: {queue: 100, pose_wait: 20}\n")
    node = start_node(graph, "--no-occupancy", "--config", settings)
    labelled = {"/roadbed/labelled": TOPICS["labelled"]}
    start_checker(graph, "slow", 1000, labelled)
    slow = graph.running[-1]
    checker = start_checker(graph, "checker", 4 * SCANS, labelled)
    slow.send_signal(signal.SIGSTOP)
    try:
        start_player(graph, "player", period=0.1, turns=4)
        assert len(checker()["/roadbed/labelled"]) == 4 * SCANS
        graph.wait_for("node", "is too slow: 1 messages were dropped, oldest first")
    finally:
        slow.kill()
    assert graph.stop(node) == 0
    assert f"{4 * SCANS} scans in, {4 * SCANS} out, 0 dropped" in graph.said("node")


def test_the_launch_file_starts_the_node(graph):
    start_bare_master(graph, "master")
    program = graph.folder / "roadbed"
    program.write_text(f'#!/bin/sh\nexec {PYTHON} -m roadbed "$@"\n')
    program.chmod(0o755)
    packages = ROOT / "ros" / "ros1"
    given = (f"roadbed:={program}", "clouds:=/front /rear", "odometry:=/odom", "options:=--no-occupancy --prefix /here")
    launch = packages / "roadbed_ros" / "launch" / "roadbed.launch"
    environment = f"ROS_PACKAGE_PATH={packages}:/usr/share"
    graph.start("launch", "/usr/bin/env", environment, "/usr/bin/roslaunch", "-p", str(graph.port), launch, *given)
    graph.wait_for("launch", "listening to /front, /rear")
    assert "results under /here/" in graph.said("launch")


def test_without_a_master_it_is_one_line(graph):
    node = graph.start("node", PYTHON, "-m", "roadbed", "ros1", "/points")
    assert node.wait(PATIENCE) == 2
    assert f"found no master at http://127.0.0.1:{graph.port}: start roscore" in graph.said("node")


HEAPS = """
import ctypes, re, sys, threading
from roadbed.live.ros1 import limit_heaps
limit_heaps()
c, together = ctypes.CDLL(None), threading.Barrier(12)
c.malloc.restype = c.fopen.restype = ctypes.c_void_p
def work():
    together.wait()
    c.malloc(ctypes.c_size_t(1000))
    together.wait()
threads = [threading.Thread(target=work) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
out = ctypes.c_void_p(c.fopen(sys.argv[1].encode(), b"w"))
c.malloc_info(0, out)
c.fclose(out)
print(len(re.findall("<heap nr", open(sys.argv[1]).read())))
"""


def test_threads_of_connections_share_two_heaps(tmp_path):
    """The heap of a thread that has ended keeps its free memory: with many heaps, restarts of publishers add up."""
    require(hasattr(ctypes.CDLL(None), "malloc_info"), "no glibc")
    environment = {key: value for key, value in os.environ.items() if key != "MALLOC_ARENA_MAX"}
    words = [sys.executable, "-c", HEAPS, str(tmp_path / "heaps.xml")]
    assert int(subprocess.check_output(words, env=environment)) <= 2
