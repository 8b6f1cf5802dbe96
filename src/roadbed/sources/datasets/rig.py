# SPDX-License-Identifier: Apache-2.0
"""Sensor mountings of a sequence folder (rig.yaml), and the sensor of each point (sensor_index/)."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from roadbed.config.text import load_text, parse_yaml
from roadbed.core.errors import ConfigError, InputError
from roadbed.core.frames import Scan, SensorMount
from roadbed.core.geometry import Pose
from roadbed.io.files import read_bytes
from roadbed.simulate.sensors import Mount

RIG_FILE, INDEX_FOLDER = "rig.yaml", "sensor_index"


def read_mounts(sequence: Path) -> tuple[SensorMount, ...]:
    """The `name` and `mount` of each of the `sensors` in rig.yaml; empty without the file."""
    path = sequence / RIG_FILE
    if not path.is_file():
        return ()
    try:
        sensors = parse_yaml(load_text(path), str(path))["sensors"]
        named = [(str(sensor["name"]), sensor["mount"]) for sensor in sensors]
    except ConfigError as error:
        raise InputError(str(error)) from None
    except (KeyError, TypeError) as error:
        raise InputError(f"{path}: expected a list sensors, each with name and mount ({error})") from None
    return tuple(
        SensorMount(name, Mount.parse(mount, f"{path}: mount of {name}").T_vehicle_sensor) for name, mount in named
    )


def on_rig(scan: Scan, sequence: Path, mounts: tuple[SensorMount, ...]) -> Scan:
    """The scan with its mounting; scans of several sensors are merged ones, in the vehicle frame."""
    if not mounts:
        return scan
    if len(mounts) == 1:
        return replace(scan, sensor=mounts[0].name, T_vehicle_sensor=mounts[0].T_vehicle_sensor)
    path = sequence / INDEX_FOLDER / f"{scan.name}.bin"
    index = np.frombuffer(read_bytes(path), np.uint8)
    if len(index) != len(scan) or (index >= len(mounts)).any():
        largest = int(index.max(initial=0))
        raise InputError(
            f"{path}: sensor of each point: found {len(index)} numbers up to {largest}, "
            f"expected {len(scan)} bytes below {len(mounts)}"
        )
    return replace(
        scan,
        sensor="+".join(mount.name for mount in mounts),
        T_vehicle_sensor=Pose.identity(),
        mounts=mounts,
        channels={**scan.channels, "sensor_index": index},
    )
