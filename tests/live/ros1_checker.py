# SPDX-License-Identifier: Apache-2.0
"""Records what arrives on a ROS 1 graph by ROS's own classes: `ros1_checker.py out.pickle COUNT TOPIC=KIND ...`."""

import io
import pickle
import sys
import threading

import roslib.message
import rospy

path, count, topics = sys.argv[1], int(sys.argv[2]), dict(entry.split("=") for entry in sys.argv[3:])
seen = {topic: [] for topic in topics}
complete = threading.Event()


def take(topic):
    def callback(message):
        buffer = io.BytesIO()
        message.serialize(buffer)
        seen[topic].append(buffer.getvalue())
        if all(len(found) >= count for found in seen.values()):
            complete.set()

    return callback


rospy.init_node("checker", anonymous=True)
for topic, kind in topics.items():
    # Where Debian has no package of that message, the bytes are taken as they are.
    found = roslib.message.get_message_class(kind) or rospy.AnyMsg
    rospy.Subscriber(topic, found, take(topic))
print("listening", flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), complete.set()), daemon=True).start()
complete.wait(280)
with open(path, "wb") as file:
    pickle.dump(seen, file)
