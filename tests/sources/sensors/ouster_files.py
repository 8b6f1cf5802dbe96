# SPDX-License-Identifier: Apache-2.0
"""An Ouster that is not there: its metadata and its packets, written byte by byte as the manual describes them."""

import json
import struct
from collections.abc import Iterator

import numpy as np

BEAMS, COLUMNS, PER_PACKET = 16, 512, 16
ALTITUDE = np.linspace(12.0, -18.0, BEAMS)
AZIMUTH = np.tile([4.2, 1.4, -1.4, -4.2], BEAMS // 4)
ORIGIN_MM = 27.67
HEIGHT_MM = 38.195
PIXEL_BYTES = {"LEGACY": 12, "RNG19_RFL8_SIG16_NIR16": 12, "RNG19_RFL8_SIG16_NIR16_DUAL": 16, "RNG15_RFL8_NIR8": 4}


def metadata(profile: str, port: int = 7502, flat: bool = False) -> str:
    """As firmware 3 gives it, or with its names flat as firmware 1 and 2 did."""
    beams = {
        "beam_altitude_angles": ALTITUDE.tolist(),
        "beam_azimuth_angles": AZIMUTH.tolist(),
        "lidar_origin_to_beam_origin_mm": ORIGIN_MM,
    }
    to_sensor = [-1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1, HEIGHT_MM, 0, 0, 0, 1]
    layout = {
        "columns_per_frame": COLUMNS,
        "columns_per_packet": PER_PACKET,
        "pixels_per_column": BEAMS,
        "column_window": [0, COLUMNS - 1],
        "pixel_shift_by_row": [0] * BEAMS,
        "udp_profile_lidar": profile,
        "udp_profile_imu": "LEGACY",
        "fps": 10,
    }
    if flat:
        return json.dumps(
            {**beams, "lidar_to_sensor_transform": to_sensor, "data_format": layout, "lidar_mode": "512x10"}
        )
    config = {"udp_profile_lidar": profile, "udp_port_lidar": port, "lidar_mode": f"{COLUMNS}x10"}
    return json.dumps(
        {
            "beam_intrinsics": beams,
            "lidar_intrinsics": {"lidar_to_sensor_transform": to_sensor},
            "imu_intrinsics": {"imu_to_sensor_transform": np.eye(4).ravel().tolist()},
            "calibration_status": {},
            "lidar_data_format": layout,
            "config_params": config,
            "sensor_info": {"prod_line": "OS-1-16", "prod_sn": "1", "build_rev": "v3.1.0", "status": "RUNNING"},
        }
    )


def road_ranges(second: bool = False) -> np.ndarray:
    """(columns, beams) mm to a road 1.8 m under the sensor or a wall 9 m away; 0 where nothing comes back."""
    down = np.maximum(-np.sin(np.radians(ALTITUDE)), 1e-6)
    reach = np.minimum(1800 / down, 9000 / np.cos(np.radians(ALTITUDE)))
    ranges = np.tile(np.round(reach), (COLUMNS, 1)).astype(np.uint32)
    ranges[::50] = 0
    return np.where(ranges > 0, ranges + (1000 if second else 0), 0).astype(np.uint32)


def packets(profile: str, frame: int, begin_ns: int = 10**9, lost: tuple[int, ...] = ()) -> Iterator[bytes]:
    """One turn; the columns in `lost` are not valid."""
    first, second = road_ranges(), road_ranges(second=True)
    for start in range(0, COLUMNS, PER_PACKET):
        raw = b"" if profile == "LEGACY" else struct.pack("<HHI24x", 1, frame, 7)
        for column in range(start, start + PER_PACKET):
            stamp, valid = begin_ns + column * 195_000, column not in lost
            if profile == "LEGACY":
                raw += struct.pack("<QHHI", stamp, column, frame, column * 90112 // COLUMNS)
            else:
                raw += struct.pack("<QHH", stamp, column, int(valid))
            raw += b"".join(_pixel(profile, column, beam, first, second) for beam in range(BEAMS))
            if profile == "LEGACY":
                raw += struct.pack("<I", 0xFFFFFFFF if valid else 0)
        yield raw if profile == "LEGACY" else raw + bytes(32)


def _pixel(profile: str, column: int, beam: int, first: np.ndarray, second: np.ndarray) -> bytes:
    """Reflectivity is the column, signal the beam, near infrared both; bits that are no range are set."""
    reach, other, bright = int(first[column, beam]), int(second[column, beam]), column % 256
    if profile == "LEGACY":
        return struct.pack("<IHHHH", reach | 0xF00 << 20, bright, beam, column + beam, 0)
    if profile == "RNG15_RFL8_NIR8":
        return struct.pack("<HBB", (reach >> 3) | 0x8000, bright, beam)
    if profile == "RNG19_RFL8_SIG16_NIR16":
        return struct.pack("<IBBHHH", reach | 0x1F << 27, bright, 9, beam, column + beam, 0)
    words = struct.pack("<II", reach | bright << 24 | 0x1F << 19, other | (255 - bright) << 24 | 0x1F << 19)
    return words + struct.pack("<HHHH", beam, beam + 1, column + beam, 0)
