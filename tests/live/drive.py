# SPDX-License-Identifier: Apache-2.0
"""A simulated drive as messages to play: clouds with fields of their own, odometry in between, and a fixed mounting."""

import numpy as np

from roadbed import Pipeline
from roadbed.outputs.ros_messages.clouds import cloud_of_columns
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.sources import open_source
from roadbed.sources.bags.pointcloud2 import cloud_fields
from roadbed.sources.bags.type_names import CLOUD, ODOMETRY, TRANSFORMS

SCANS = 8


def drive_scans():
    return list(open_source(f"sim:city?sensor=vlp16&frames={SCANS}"))


def check_clouds(sent, arrived) -> None:
    """Every scan came back once and in order, with all its fields, and labelled as without any ROS in between."""
    assert [cloud.header.stamp for cloud in arrived] == [cloud.header.stamp for cloud in sent]
    pipeline = Pipeline(occupancy=True)
    for scan, before, after in zip(drive_scans(), sent, arrived, strict=True):
        given, made = cloud_fields(before, "sent"), cloud_fields(after, "arrived")
        assert set(made) == set(given) | {"label", "ground_probability", "height_above_ground"}
        for name, values in given.items():
            np.testing.assert_array_equal(made[name], values)
        assert (made["label"] == pipeline(scan).ground.label).mean() > 0.999


def drive_records(messages: RosMessages, period: float, start: float = 1000.0):
    """(topic, kind, bytes, s after the start): scans every `period` s, each before the odometry around it.

    The first one comes before its mounting too: on connections of their own messages overtake each other.
    """
    scans = drive_scans()
    T_vehicle_sensor = scans[0].T_vehicle_sensor
    header = messages.header(messages.stamp(0.0), "base_link")
    static = messages.transform(header, "velodyne", T_vehicle_sensor)
    for number, scan in enumerate(scans):
        time, due = start + 0.1 * number, period * number
        columns = {axis: scan.points[:, k] for k, axis in enumerate("xyz")}
        columns |= {"ring": scan.ring.astype(np.uint16), "intensity": scan.intensity.astype(np.float32)}
        columns["echo"] = np.arange(len(scan), dtype=np.uint32)  # a field that nobody knows
        cloud = cloud_of_columns(messages, messages.header(messages.stamp(time), "velodyne"), columns)
        yield "/points", CLOUD, messages.to_bytes(cloud), due
        if number == 0:
            yield "/tf_static", TRANSFORMS, messages.to_bytes(static), 0.1
        for aside in (-0.04, 0.04):
            place = messages.header(messages.stamp(time + aside), "odom")
            odometry = messages.odometry(place, "base_link", scan.T_world_vehicle)
            yield "/odom", ODOMETRY, messages.to_bytes(odometry), due + 0.1
