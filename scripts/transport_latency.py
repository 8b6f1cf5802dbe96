# SPDX-License-Identifier: Apache-2.0
"""How long a message as large as a cloud takes to another process, with no node between: transport_latency.py ros1|dds

`--before`: with what was set before, a read buffer of 16 MB for rospy, and Cyclone's own sizes and delays for DDS.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from typing import Any

import numpy as np

from roadbed.sources.bags.type_names import CLOUD

TOPIC = "/transport_latency"
READ_BEFORE = 2**24
DDS_BEFORE = (
    "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='lo' multicast='false'/></Interfaces>"
    "<AllowMulticast>false</AllowMulticast><MaxMessageSize>65500B</MaxMessageSize></General>"
    "<Discovery><ParticipantIndex>auto</ParticipantIndex><Peers><Peer address='127.0.0.1'/></Peers></Discovery>"
    "</Domain></CycloneDDS>"
)


def graph(given: argparse.Namespace, name: str) -> Any:
    if given.transport == "dds":
        from roadbed.live.dds import Dds

        if given.before:
            os.environ["CYCLONEDDS_URI"] = DDS_BEFORE
        return Dds(reliable=True)
    import rospy

    from roadbed.live.ros1 import Ros1

    if given.before:
        rospy.Subscriber = partial(rospy.Subscriber, buff_size=READ_BEFORE)
    return Ros1(name)


def receive(given: argparse.Namespace) -> None:
    """Until the sender closes our input; then what came, and what it cost."""
    delays: list[float] = []

    def callback(data: bytes) -> None:
        delays.append(time.monotonic() - float(np.frombuffer(data, np.float64, 1, offset=8)[0]))

    graph(given, "transport_receiver").subscribe(TOPIC, CLOUD, callback)
    before = time.process_time()
    print("listening", flush=True)
    sys.stdin.read()
    print(json.dumps({"delays": delays, "processor": time.process_time() - before}), flush=True)
    os._exit(0)


def send(given: argparse.Namespace) -> None:
    receiver = subprocess.Popen(
        [sys.executable, __file__, *sys.argv[1:], "--receive"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert receiver.stdin is not None
    assert receiver.stdout is not None
    receiver.stdout.readline()
    sender = graph(given, "transport_sender")
    sender.advertise(TOPIC, CLOUD)
    while not sender.has_listeners(TOPIC):
        time.sleep(0.05)
    time.sleep(1.0)  # the way back has to be found too
    message = np.random.default_rng(0).integers(0, 255, given.size, np.uint8)
    message[:8] = (0, 1, 0, 0, 0, 0, 0, 0)  # CDR, little-endian
    before, start = time.process_time(), time.monotonic()
    for number in range(given.messages):
        time.sleep(max(start + number / given.rate - time.monotonic(), 0.0))
        message[8:16] = np.array([time.monotonic()]).view(np.uint8)
        sender.publish(TOPIC, message.tobytes())
    sent = time.process_time() - before
    time.sleep(2.0)
    receiver.stdin.close()
    came = json.loads(receiver.stdout.readline())
    delays, count = 1e3 * np.array(came["delays"] or [np.nan]), given.messages
    print(
        f"{given.transport}{' before' if given.before else ''}: {count - len(came['delays'])} of {count} lost", end="; "
    )
    print(f"least {delays.min():.1f} ms, median {np.median(delays):.1f}, p95 {np.percentile(delays, 95):.1f}", end="; ")
    send_ms, receive_ms = 1e3 * sent / count, 1e3 * came["processor"] / count
    print(f"processor ms per message: {send_ms:.1f} to send, {receive_ms:.1f} to receive", flush=True)
    os._exit(0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", choices=("ros1", "dds"))
    parser.add_argument("--messages", type=int, default=60)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--size", type=int, default=3_012_712)
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--receive", action="store_true")
    asked = parser.parse_args()
    receive(asked) if asked.receive else send(asked)
