# SPDX-License-Identifier: Apache-2.0
"""Plays prepared messages on a ROS 1 graph with ROS's own classes: `ros1_player.py messages.pickle node-name`."""

import pickle
import sys
import time

import roslib.message
import rospy

with open(sys.argv[1], "rb") as file:
    records = pickle.load(file)
rospy.init_node(sys.argv[2])
publishers = {}
for topic, kind, *_ in records:
    if topic not in publishers:
        latched = topic == "/tf_static"
        found = roslib.message.get_message_class(kind.replace("/msg/", "/"))
        publishers[topic] = rospy.Publisher(topic, found, queue_size=100, latch=latched)
deadline = time.monotonic() + 200
while any(p.get_num_connections() < 1 for p in publishers.values()) and time.monotonic() < deadline:
    time.sleep(0.05)
start = time.monotonic()
for topic, _, data, due in records:
    time.sleep(max(start + due - time.monotonic(), 0))
    publishers[topic].publish(publishers[topic].data_class().deserialize(data))
print("played", flush=True)
sys.stdin.read()  # latched messages stay until the test closes this
