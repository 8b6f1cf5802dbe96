# SPDX-License-Identifier: Apache-2.0
"""The ROS 2 node as a DDS participant: player, node and checker are processes of their own on a real DDS domain."""

import json
import pickle
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from rosbags.typesys import Stores, get_typestore

from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources.bags.type_names import CLOUD
from tests.conftest import ROOT, require
from tests.live.drive import SCANS, check_clouds, drive_records
from tests.live.processes import PATIENCE, Processes
from tests.live.two_machines import OTHER, ROBOT, TwoMachines, run
from tests.reserved import reserved

pytestmark = pytest.mark.long(40)

HERE = ROOT / "tests" / "live"


@pytest.fixture
def domain(tmp_path):
    """A domain that no other test on this machine has; its ports lie below those that the system hands out."""
    require(find_spec("cyclonedds") is not None, "no cyclonedds: make .stamps/dds")
    with Processes(tmp_path, {"ROS_DOMAIN_ID": str(reserved("DDS domain", range(1, 50)))}) as processes:
        processes.folder = tmp_path
        yield processes


def test_a_drive_goes_through_dds_and_nothing_is_lost(domain):
    """Though another reader of the same topics stands still with its buffers full."""
    folder, messages = domain.folder, RosMessages(2)
    records = list(drive_records(messages, period=0.5))
    (folder / "drive.pickle").write_bytes(pickle.dumps(records))
    (folder / "settings.yaml").write_text("live: {queue: 8, pose_wait: 20}\n")
    options = ("--odometry", "/odom", "--on-road", "--reliable", "--config", folder / "settings.yaml")
    node = domain.start("node", sys.executable, "-m", "roadbed", "ros2", "/points", *options)
    domain.wait_for("node", "Ctrl+C stops it")
    assert "on loopback" in domain.said("node")
    checker = domain.start("checker", sys.executable, HERE / "dds_checker.py", folder / "seen.pickle", str(SCANS))
    slow = domain.start("slow", sys.executable, HERE / "dds_checker.py", folder / "nothing.pickle", "1000")
    for name in ("checker", "slow"):
        domain.wait_for(name, "listening")
    slow.send_signal(signal.SIGSTOP)
    domain.start("player", sys.executable, HERE / "dds_player.py", folder / "drive.pickle")
    try:
        assert checker.wait(PATIENCE) == 0, domain.said("checker")
    finally:
        slow.kill()
    assert domain.stop(node) == 0
    clouds, grids = pickle.loads((folder / "seen.pickle").read_bytes())
    assert f"{SCANS} scans in, {SCANS} out, 0 dropped, 0 refused" in domain.said("node"), domain.said("node")
    # Read by a type store that Roadbed has not touched.
    store = get_typestore(Stores.ROS2_HUMBLE)
    sent = [store.deserialize_cdr(data, CLOUD) for topic, _, data, _ in records if topic == "/points"]
    check_clouds(sent, [store.deserialize_cdr(data, CLOUD) for data in clouds])
    assert len(grids) == SCANS
    frame, width, data = grids[-1]
    percent = np.frombuffer(data, np.int8)
    assert frame == "roadbed_grid"
    assert len(percent) % width == 0
    assert percent.min() == -1
    assert 50 < percent.max() <= 100


SOCKETS = """
import os, socket
from roadbed.live.dds import Dds
joined = Dds()
for name in os.listdir("/proc/self/fd"):
    try:
        opened = socket.socket(fileno=os.dup(int(name)))
    except OSError:  # a file, or the folder that was listed
        continue
    if opened.type == socket.SOCK_DGRAM:
        print(*(opened.getsockopt(socket.SOL_SOCKET, side) for side in (socket.SO_RCVBUF, socket.SO_SNDBUF)))
joined.close()
"""


def test_sockets_hold_as_much_of_a_cloud_as_the_system_lets_them(domain):
    reader = domain.start("reader", sys.executable, "-c", SOCKETS)
    assert reader.wait(PATIENCE) == 0, domain.said("reader")
    received, sent = np.loadtxt(domain.said("reader").splitlines(), dtype=int, ndmin=2).max(axis=0)
    for size, most in ((received, "rmem_max"), (sent, "wmem_max")):
        allowed = int((Path("/proc/sys/net/core") / most).read_text())
        assert size >= 2 * min(allowed, 4 << 20)  # Linux doubles what it is asked for, for its own bookkeeping


# The ports of twelve other participants are taken.
CROWDED = """
import os, socket
from roadbed.live.dds import Dds
first = 7400 + 250 * int(os.environ["ROS_DOMAIN_ID"]) + 10
taken = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(12)]
for index, one in enumerate(taken):
    one.bind(("", first + 2 * index))
joined = Dds()
print(joined.address)
joined.close()
"""


def test_more_processes_than_cyclone_dds_expects_join_on_one_machine(domain):
    """Ten by default."""
    process = domain.start("crowded", sys.executable, "-c", CROWDED)
    assert process.wait(PATIENCE) == 0, domain.said("crowded")
    assert "on loopback" in domain.said("crowded")


JOINED = """
import sys
from roadbed.live.dds import Dds
joined = Dds()
print(joined.address, flush=True)
sys.stdin.read()
joined.close()
"""
# A closed port answers, so that the second packet is refused; an open one takes both.
KNOCK = """
import socket, sys, time
address, *ports = sys.argv[1:]
for port in map(int, ports):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as knocking:
        knocking.connect((address, port))
        try:
            for _ in range(2):
                knocking.send(b"RTPS")
                time.sleep(0.2)
        except ConnectionRefusedError:
            continue
    print(port)
"""


def open_ports(machines, words, address, ports):
    """Ports of the robot that let packets in: not closed, and not dropping all of them before a program can read."""
    before = dropped_packets(machines, ports)
    command = [*words, sys.executable, "-c", KNOCK, address, *map(str, ports)]
    answers = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    after = dropped_packets(machines, ports)
    return [port for port in map(int, answers) if after[port] - before[port] < 2]


def dropped_packets(machines, ports):
    """Of the robot, by port."""
    words = [*machines.on_robot, "cat", "/proc/net/udp"]
    table = subprocess.run(words, check=True, capture_output=True, text=True)
    rows = [line.split() for line in table.stdout.splitlines()[1:]]
    found = {int(row[1].partition(":")[2], 16): int(row[-1]) for row in rows}
    return {port: found.get(port, 0) for port in ports}


@pytest.mark.parametrize("multicast", ["off", "on"])
def test_another_machine_finds_no_open_port_unless_the_network_is_named(domain, multicast):
    ports = [7400 + 250 * 7 + k for k in (0, 10, 11)]  # of the RTPS standard: multicast, discovery and data
    with TwoMachines() as machines:
        run(*machines.on_robot, "ip", "link", "set", "lo", "multicast", multicast)
        alone = domain.start("alone", *machines.on_robot, "env", "ROS_DOMAIN_ID=7", sys.executable, "-c", JOINED)
        domain.wait_for("alone", "DDS domain 7 on loopback")
        own = ports if multicast == "on" else ports[1:]
        assert open_ports(machines, machines.on_robot, "127.0.0.1", ports) == own
        assert open_ports(machines, machines.on_robot, ROBOT, ports) == own  # where Iron and later send
        assert open_ports(machines, machines.on_other, ROBOT, ports) == []
        domain.stop(alone)
        settings = ("ROS_DOMAIN_ID=7", "ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST", f"ROS_STATIC_PEERS={OTHER}")
        domain.start("open", *machines.on_robot, "env", *settings, sys.executable, "-c", JOINED)
        domain.wait_for("open", f"DDS domain 7 on the network, with the peers {OTHER}")
        assert "other machines can read the results and change parameters" in domain.said("open")
        assert open_ports(machines, machines.on_other, ROBOT, ports) == ports[1:]


# A socket that hears what a participant announces to the standard's multicast address.
HEAR = """
import socket, struct, sys
hearing = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
hearing.bind(("", int(sys.argv[1])))
hearing.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", socket.inet_aton("239.255.0.1"),
                   socket.inet_aton(sys.argv[2])))
hearing.settimeout(8)
print("hearing", flush=True)
try:
    print("heard", hearing.recvfrom(65536)[1], flush=True)
except TimeoutError:
    print("silence", flush=True)
"""


@pytest.mark.parametrize(("variable", "heard"), [("LOCALHOST", "silence"), ("SUBNET", "heard")])
def test_nothing_is_announced_to_other_machines_unless_the_network_is_named(domain, variable, heard):
    with TwoMachines() as machines:
        domain.start("ear", *machines.on_other, sys.executable, "-c", HEAR, str(7400 + 250 * 7), OTHER)
        domain.wait_for("ear", "hearing")
        settings = ("ROS_DOMAIN_ID=7", f"ROS_AUTOMATIC_DISCOVERY_RANGE={variable}")
        node = domain.start("node", *machines.on_robot, "env", *settings, sys.executable, "-c", JOINED)
        domain.wait_for("ear", heard)
        domain.stop(node)


NODE = """
import sys
from roadbed.live.dds import Dds
joined = Dds()
joined.subscribe("/points", "sensor_msgs/msg/PointCloud2", print)
joined.advertise("/roadbed/labelled", "sensor_msgs/msg/PointCloud2")
joined.advertise("/diagnostics", "diagnostic_msgs/msg/DiagnosticArray")
print("joined", flush=True)
sys.stdin.read()
joined.close()
"""
# As rmw_cyclonedds configures Cyclone DDS with ROS_LOCALHOST_ONLY=1.
LOCALHOST_ONLY = (
    "<CycloneDDS><Domain><General><Interfaces><NetworkInterface address='127.0.0.1'/></Interfaces></General>"
    "</Domain></CycloneDDS>"
)
# And since Iron with ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST: on the default interface, with unicast to this machine.
LOCALHOST_RANGE = (
    "<CycloneDDS><Domain><General><AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto"
    "</ParticipantIndex><MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers><Peer address='localhost'/></Peers>"
    "</Discovery></Domain></CycloneDDS>"
)
CLOUD_HASH = "RIHS01_9198cabf7da3796ae6fe19c4cb3bdd3525492988c70522628af5daa124bae2b5"  # ros2 topic info -v


@pytest.mark.parametrize(
    ("distribution", "multicast", "tool"),
    [
        ("humble", "off", LOCALHOST_ONLY),
        ("humble", "on", LOCALHOST_ONLY),
        ("jazzy", "off", LOCALHOST_ONLY),
        ("jazzy", "off", LOCALHOST_RANGE),
    ],
)
def test_ros_2_tools_find_the_node_and_its_topics(domain, distribution, multicast, tool):
    """Humble has identifiers of 24 bytes, Jazzy of 16."""
    with TwoMachines() as machines:
        run(*machines.on_robot, "ip", "link", "set", "lo", "multicast", multicast)
        words = (*machines.on_robot, "env", "ROS_DOMAIN_ID=7", f"ROS_DISTRO={distribution}")
        domain.start("node", *words, sys.executable, "-c", NODE)
        domain.wait_for("node", "joined")
        reader = domain.start(
            "tool", *words, f"CYCLONEDDS_URI={tool}", sys.executable, HERE / "dds_graph_reader.py", "3"
        )
        assert reader.wait(PATIENCE) == 0, domain.said("tool")
    listed = json.loads(domain.said("tool").splitlines()[-1])
    cloud = "sensor_msgs::msg::dds_::PointCloud2_"
    assert ["/roadbed", "reader", "rt/points", cloud, CLOUD_HASH] in listed
    assert ["/roadbed", "writer", "rt/roadbed/labelled", cloud, CLOUD_HASH] in listed
    ((*_, kind, hashed),) = [entry for entry in listed if entry[2] == "rt/diagnostics"]
    assert kind == "diagnostic_msgs::msg::dds_::DiagnosticArray_"
    assert hashed.startswith("RIHS01_")
    assert len(listed) == 3


def test_a_domain_that_does_not_exist_is_one_line(domain, tmp_path):
    with Processes(tmp_path, {"ROS_DOMAIN_ID": "many"}) as processes:
        node = processes.start("wrong", sys.executable, "-m", "roadbed", "ros2", "/points")
        assert node.wait(PATIENCE) == 2
        assert "ROS_DOMAIN_ID: expected a number from 0 to 232, found 'many'" in processes.said("wrong")
