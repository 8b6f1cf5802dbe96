# SPDX-License-Identifier: Apache-2.0
"""Processor ms of each message that a node reads or makes, for one scan of an HDL-64E: message_costs.py [1|2]"""

import sys
import time
from collections.abc import Callable
from typing import Any

from roadbed import Pipeline
from roadbed.outputs.ros_messages.clouds import cloud_of_scan
from roadbed.outputs.ros_messages.results import TOPICS, ResultMessages
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources import open_source
from roadbed.sources.bags.scan_messages import scan_of_message
from roadbed.sources.bags.type_names import CLOUD


def least(work: Callable[[], Any], times: int = 12) -> tuple[float, Any]:
    taken = []
    for _ in range(times):
        begun = time.thread_time()
        made = work()
        taken.append(time.thread_time() - begun)
    return 1e3 * min(taken), made


if __name__ == "__main__":
    messages = RosMessages(2 if sys.argv[1:] == ["2"] else 1)
    pipeline = Pipeline()
    for scan in open_source("sim:city?sensor=hdl64e&frames=3"):
        result = pipeline(scan)
    sent = messages.to_bytes(cloud_of_scan(messages, messages.header(messages.stamp(1.0), "lidar"), scan))
    read_ms, cloud = least(lambda: messages.from_bytes(sent, CLOUD))
    scan_ms, _ = least(lambda: scan_of_message(cloud, "cloud"))
    print(f"{len(scan)} points, {len(sent)} bytes: read {read_ms:.2f}, as a scan {scan_ms:.2f}")
    for topic in TOPICS:
        make_ms, made = least(lambda topic=topic: ResultMessages(messages, result, None, cloud).make(topic))
        bytes_ms, data = least(lambda made=made: messages.to_bytes(made))
        print(f"{topic}: made {make_ms:.2f}, as bytes {bytes_ms:.2f} ({len(data)} bytes)")
