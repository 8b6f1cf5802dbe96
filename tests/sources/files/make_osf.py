# SPDX-License-Identifier: Apache-2.0
"""Write an OSF file by ouster-sdk from the packets of `ouster_files`: run it in an environment that has ouster-sdk.

`PYTHONPATH=. ENVIRONMENT/bin/python tests/sources/files/make_osf.py PROFILE OUT.osf`
"""

import json
import sys

import numpy as np

from tests.sources.sensors import ouster_files as sensor

FRAMES = 2
SHIFTS = [12, 4, -4, -12]
EXTRINSIC = np.array([[1, 0, 0, 0.5], [0, 1, 0, 0], [0, 0, 1, 1.8], [0, 0, 0, 1.0]])


def main(profile: str, out: str) -> None:
    from ouster.sdk import osf

    try:
        from ouster.sdk.core import LidarPacket, LidarScan, ScanBatcher, SensorInfo
    except ImportError:  # before version 0.15
        from ouster.sdk.client import LidarPacket, LidarScan, ScanBatcher, SensorInfo
    tree = json.loads(sensor.metadata(profile))
    tree["lidar_data_format"]["pixel_shift_by_row"] = SHIFTS * (sensor.BEAMS // len(SHIFTS))
    info = SensorInfo(json.dumps(tree))
    info.extrinsic = EXTRINSIC
    writer = osf.Writer(out, info)
    for frame in range(FRAMES):
        scan, batcher = LidarScan(info), ScanBatcher(info)
        for number, raw in enumerate(sensor.packets(profile, frame + 1, 10**9 + frame * 10**8, lost=(7,))):
            packet = LidarPacket(len(raw))
            packet.buf[:] = np.frombuffer(raw, np.uint8)
            packet.host_timestamp = 1_700_000_000 * 10**9 + frame * 10**8 + number * 10**6
            batcher(packet, scan)
        poses = np.tile(np.eye(4), (sensor.COLUMNS, 1, 1))
        poses[:, 0, 3] = frame + np.arange(sensor.COLUMNS) / sensor.COLUMNS
        if frame:  # SLAM saves none with its first scan
            (scan.body_to_world if hasattr(scan, "body_to_world") else scan.pose)[:] = poses
        writer.save(0, scan)
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
