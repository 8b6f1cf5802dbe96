# SPDX-License-Identifier: Apache-2.0
"""Our reading of Ouster packets beside that of ouster-sdk, in an environment of its own that has both.

`python -m venv both && both/bin/pip install ouster-sdk . && PYTHONPATH=. both/bin/python scripts/compare_ouster.py`;
the name of a capture (`.pcap` with its `.json`) compares the scans of that one.
"""

import sys
import warnings

import numpy as np

import roadbed
from roadbed.sources.sensors.ouster import read_metadata
from tests.sources.sensors import ouster_files as sensor

NAMES = {
    "RANGE": "range",
    "RANGE2": "range2",
    "REFLECTIVITY": "reflectivity",
    "REFLECTIVITY2": "reflectivity2",
    "SIGNAL": "intensity",
    "SIGNAL2": "intensity2",
    "NEAR_IR": "near_ir",
}


def main() -> None:
    import ouster.sdk.core as sdk

    for profile in sensor.PIXEL_BYTES:
        text = sensor.metadata(profile)
        ours, info = read_metadata(text, profile), sdk.SensorInfo(text)
        theirs, batcher = sdk.LidarScan(info), sdk.ScanBatcher(info)
        values: dict[str, np.ndarray] = {}
        points = np.zeros((sensor.COLUMNS, sensor.BEAMS, 3))
        for raw in sensor.packets(profile, frame=5, lost=(7,)):
            packet = sdk.LidarPacket(len(raw))
            packet.buf[:], packet.host_timestamp = np.frombuffer(raw, np.uint8), 1
            batcher(packet, theirs)
            columns = ours.decode(raw)
            for name, found in columns.values.items():
                values.setdefault(name, np.zeros(points.shape[:2], np.uint32))[columns.number] = found
            points[columns.number] = ours.points(columns.number, columns.values["range"])
        fields = [str(field) for field in theirs.fields if str(field) in NAMES]
        same = all(np.array_equal(theirs.field(field).T, values[NAMES[field]]) for field in fields)
        placed = sdk.XYZLut(info, use_extrinsics=False)(theirs).transpose(1, 0, 2)
        apart = np.abs(placed - points)[values["range"] > 0].max()
        print(f"{profile}: {len(fields)} fields {'equal' if same else 'DIFFER'}, points within {1e6 * apart:.1f} um")


def compare_capture(path: str) -> None:
    import ouster.sdk.core as sdk
    from ouster.sdk import open_source

    for ours, (theirs, *_) in zip(roadbed.open(path), open_source(path)):
        seen = theirs.field("RANGE").T > 0
        placed = sdk.XYZLut(theirs.sensor_info, use_extrinsics=False)(theirs).transpose(1, 0, 2)[seen]
        same = np.array_equal(theirs.field("SIGNAL").T[seen], ours.intensity)
        apart = np.abs(placed - ours.points).max()
        print(f"{len(ours)} points, signal {'equal' if same else 'DIFFERS'}, points within {1e6 * apart:.1f} um")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:]:
        compare_capture(sys.argv[1])
    else:
        main()
