# SPDX-License-Identifier: Apache-2.0
"""Plays prepared messages as a DDS participant: `dds_player.py messages.pickle`."""

import pickle
import sys
import time
from pathlib import Path

from roadbed.live.dds import Dds

records = pickle.loads(Path(sys.argv[1]).read_bytes())
graph = Dds()
topics = {topic: kind for topic, kind, *_ in records}
for topic, kind in topics.items():
    graph.advertise(topic, kind)
deadline = time.monotonic() + 200
while not all(map(graph.has_listeners, topics)) and time.monotonic() < deadline:
    time.sleep(0.05)
start = time.monotonic()
for topic, _, data, due in records:
    time.sleep(max(start + due - time.monotonic(), 0))
    graph.publish(topic, data)
print("played", flush=True)
sys.stdin.read()
