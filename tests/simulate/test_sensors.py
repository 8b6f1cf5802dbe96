# SPDX-License-Identifier: Apache-2.0
"""Sensors against their data sheets."""

import numpy as np
import pytest

from roadbed.core.errors import ConfigError
from roadbed.simulate.sensors import SENSORS, Mount, Rig, Sensor, load_rig

# name: firings per sweep, tolerance; lowest and highest elevation in degrees; field in degrees; sweeps per second;
# range in m
DATA_SHEETS = {
    "hdl64e": (100_000, 100, -24.33, 2.0, 360.0, 10.0, 120.0),
    "hdl64e_s2": (133_300, 100, -24.33, 2.0, 360.0, 10.0, 120.0),
    "hdl32e": (70_000, 700, -30.67, 10.67, 360.0, 10.0, 100.0),
    "vlp16": (30_000, 1_200, -15.0, 15.0, 360.0, 10.0, 100.0),
    "solid_state": (44_100, 0, -20.0, 5.0, 70.0, 10.0, 200.0),
    "lux4": (2_550, 15, -1.2, 1.2, 85.0, 25.0, 200.0),
    "lux8": (5_100, 30, -1.2, 1.2, 85.0, 25.0, 200.0),
}


@pytest.mark.parametrize("name", SENSORS)
def test_data_sheet(name: str) -> None:
    firings, tolerance, lowest, highest, field, rate, reach = DATA_SHEETS[name]
    rig = load_rig(name)
    assert abs(sum(sensor.columns * len(sensor.elevations) for sensor in rig.sensors) - firings) <= tolerance
    assert rig.rate == rate
    for sensor in rig.sensors:
        assert sensor.range_max == reach
        assert min(sensor.elevations) == pytest.approx(lowest)
        assert max(sensor.elevations) == pytest.approx(highest)
        azimuths = np.degrees(sensor.azimuths())
        step = abs(azimuths[1] - azimuths[0])
        assert np.ptp(azimuths) + step == pytest.approx(field)
        lags = sensor.lags()
        assert lags.mean() == pytest.approx(0.0, abs=1e-12)
        assert np.ptp(lags) < 1 / rate


def test_eight_lux_see_every_bearing_at_least_once_and_at_most_twice() -> None:
    bearing = np.arange(0, 360, 0.1)
    yaws = np.array([sensor.mount.yaw for sensor in load_rig("lux8").sensors])
    seen = np.abs((bearing - yaws[:, None] + 180) % 360 - 180) <= 42.5
    assert set(seen.sum(axis=0)) == {1, 2}
    assert len(yaws) == 8


def test_lux_rig_covers_160_degrees_in_front_and_85_behind() -> None:
    seen = np.zeros(3600, bool)
    for sensor in load_rig("lux4").sensors:
        half = 42.5
        bearing = np.arange(3600) / 10
        seen |= np.abs((bearing - sensor.mount.yaw + 180) % 360 - 180) <= half
    front = np.abs((np.arange(3600) / 10 + 180) % 360 - 180) < 90
    assert seen[front].sum() / 10 == pytest.approx(160.0, abs=0.3)
    assert seen[~front].sum() / 10 == pytest.approx(85.0, abs=0.3)


def test_hdl64e_layers_are_denser_above() -> None:
    elevations = np.array(load_rig("hdl64e").sensors[0].elevations)
    steps = -np.diff(elevations)
    assert steps[:31] == pytest.approx(1 / 3, abs=0.001)
    assert steps[32:] == pytest.approx(0.5)


@pytest.mark.parametrize(
    "change",
    [
        {"columns": 0},
        {"rate": -1.0},
        {"elevations": ()},
        {"range_noise": -0.1},
        {"range_min": 200.0},
        {"dropout": 1.0},
        {"mount": {"z": -0.5}},
        {"colour": "red"},
    ],
)
def test_bad_description(change: dict) -> None:
    with pytest.raises(ConfigError):
        Sensor.parse({"elevations": (0.0,), "columns": 10, **change})


def test_a_sensor_is_over_the_middle_of_the_vehicle_unless_a_place_is_given() -> None:
    np.testing.assert_array_equal(Mount().T_vehicle_sensor.translation, [0, 0, 1.73])
    np.testing.assert_array_equal(Mount().T_vehicle_sensor.rotation, np.eye(3))


def test_rig_needs_different_names() -> None:
    sensor = Sensor(elevations=(0.0,), columns=10)
    with pytest.raises(ConfigError, match="different names"):
        Rig.parse({"sensors": [sensor.model_dump(), sensor.model_dump()]})


def test_unknown_sensor_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"hdl64e.*lux4"):
        load_rig("hdl65e")


def test_a_rig_survives_its_yaml_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    import yaml

    file = tmp_path / "rig.yaml"
    file.write_text(yaml.safe_dump(load_rig("lux4").model_dump(mode="json")))
    assert load_rig(str(file)) == load_rig("lux4")
    file.write_text("sensors: 3")
    with pytest.raises(ConfigError, match=r"rig\.yaml"):
        load_rig(str(file))
