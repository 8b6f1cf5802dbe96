# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose
from roadbed.sources.fields import scan_from_fields, sweep_time

OFFSETS = np.array([0.0, 0.03, 0.1])
EPOCH = 1_700_000_000.0


@pytest.mark.parametrize(
    "values",
    [
        (OFFSETS * 1e9).astype(np.uint32),  # Ouster t, Livox offset_time
        OFFSETS.astype(np.float32),  # Velodyne time
        OFFSETS,
    ],
)
def test_relative_times_become_seconds(values):
    seconds, time = sweep_time(values, 12.0)
    np.testing.assert_allclose(seconds, OFFSETS, atol=1e-7)
    assert time == 12.0


@pytest.mark.parametrize(
    "values",
    [
        EPOCH + OFFSETS,
        (EPOCH + OFFSETS) * 1e3,
        (EPOCH + OFFSETS) * 1e6,
        (EPOCH + OFFSETS) * 1e9,
        (EPOCH * 1e9 + OFFSETS * 1e9).astype(np.uint64),
        (EPOCH * 1e9 + OFFSETS * 1e9).astype(np.int64),
    ],
)
def test_absolute_times_are_told_by_their_size(values):
    seconds, time = sweep_time(values, None)
    np.testing.assert_allclose(seconds, OFFSETS, atol=1e-6)
    assert time == pytest.approx(EPOCH)
    # With a stamp of the message on the same clock the times refer to it.
    seconds, time = sweep_time(values, EPOCH + 0.1)
    np.testing.assert_allclose(seconds, OFFSETS - 0.1, atol=1e-6)
    assert time == EPOCH + 0.1
    # A clock of its own (time since the sensor's start) keeps only the differences.
    seconds, time = sweep_time(values, 50.0)
    np.testing.assert_allclose(seconds, OFFSETS, atol=1e-6)
    assert time == 50.0


def test_missing_returns_among_absolute_times_are_nan():
    seconds, _ = sweep_time(np.array([0.0, EPOCH, EPOCH + 0.1]), None)
    assert np.isnan(seconds[0])
    np.testing.assert_allclose(seconds[1:], [0, 0.1], atol=1e-6)


@pytest.mark.parametrize(
    "values", [np.array([0, 50.0, 100]), np.array([1e5, 1e5 + 60]), np.array([-20.0, 0]), np.zeros((2, 2))]
)
def test_numbers_that_are_no_sweep_stay_a_channel(values):
    assert sweep_time(values, None) is None
    fields = {axis: np.zeros(2, np.float32) for axis in "xyz"} | {"time": values[:2]}
    if values.ndim == 1:
        scan = scan_from_fields(fields, "test")
        assert scan.point_time is None
        np.testing.assert_array_equal(scan.channels["time"], values[:2])


def test_names_in_any_case_and_leftovers_by_their_own_name():
    fields = {
        "X": np.array([1.0], np.float32),
        "Y": np.array([2.0], np.float32),
        "Z": np.array([3.0], np.float32),
        "Intensity": np.array([4], np.uint8),
        "reflectivity": np.array([5], np.uint16),
        "RING": np.array([6], np.uint16),
        "label": np.array([7], np.uint8),
        "classes": np.array([40], np.uint16),
    }
    scan = scan_from_fields(fields, "test")
    np.testing.assert_array_equal(scan.points, [[1, 2, 3]])
    assert (scan.intensity[0], scan.ring[0], scan.classes[0]) == (4, 6, 40)
    assert scan.classes.dtype == np.uint32
    assert set(scan.channels) == {"reflectivity", "label"}
    assert scan.channels["reflectivity"].dtype == np.uint16


def test_points_of_several_sensors_without_mountings_are_noted():
    """Such as those of a rig in a bag."""
    fields = {axis: np.zeros(2) for axis in "xyz"}
    assert scan_from_fields(fields, "test").diagnostics == ()
    (note,) = scan_from_fields({**fields, "sensor_index": np.array([0, 1])}, "test").diagnostics
    assert "without their mountings: rays start at the origin" in note


def test_names_in_their_own_case_come_first():
    raw = {axis: np.array([1000], np.int32) for axis in "XYZ"}
    scan = scan_from_fields({**raw, **{axis: np.array([1.0]) for axis in "xyz"}}, "test")
    np.testing.assert_array_equal(scan.points, [[1, 1, 1]])
    assert set(scan.channels) == {"X", "Y", "Z"}


def test_a_shift_is_placed_by_the_pose_it_came_with():
    fields = {"x": np.array([500000.0, 500001.0]), "y": np.zeros(2), "z": np.array([np.nan, 1e300])}
    scan = scan_from_fields(fields, "test", T_world_sensor=Pose.from_euler(0, 0, 0, yaw=np.pi / 2))
    np.testing.assert_allclose(np.diff(scan.points[:, 0]), 1)
    np.testing.assert_allclose(scan.T_world_sensor.translation, [0, 500000, 0], atol=1e-6)
    assert np.isnan(scan.points[0, 2])
    assert np.isinf(scan.points[1, 2])


def test_missing_coordinates():
    with pytest.raises(InputError, match="a file: fields: expected x, y and z of one number per point, found x, y"):
        scan_from_fields({"x": np.zeros(1), "y": np.zeros(1)}, "a file")


@pytest.mark.parametrize(
    "values",
    [
        np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max]),  # whose difference is no int64
        np.array([1, np.iinfo(np.uint64).max], np.uint64),
        np.array([0x7F800001, 0x7F800001], np.uint32).view(np.float32),  # NaN of a kind that warns when it is converted
        np.array([-1e308, 1e308]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_times_without_sense_stay_a_channel_or_unknown(values):
    fields = {axis: np.zeros(2, np.float32) for axis in "xyz"} | {"time": values}
    scan = scan_from_fields(fields, "test")
    assert scan.time is None
    assert "time" in scan.channels or np.isnan(scan.point_time).all()


SWEEP = np.linspace(0, 0.1, 50)


@pytest.mark.parametrize(
    ("values", "time", "note"),
    [
        ((SWEEP * 1e6).astype(np.uint32), None, "times of points (t), 0 to 100000, are taken for microseconds"),
        (((1.7e9 + SWEEP) * 1e6).astype(np.uint64), 1.7e9, "are taken for microseconds"),
        ((SWEEP * 1e9).astype(np.uint32), None, ""),
        (1_700_000_000_000_000 + (SWEEP * 1e9).astype(np.int64), 1.7e6, ""),  # ns since the start of the sensor
    ],
)
def test_whole_numbers_are_microseconds_where_a_sweep_in_nanoseconds_is_too_short(values, time, note):
    scan = scan_from_fields({axis: np.zeros(50, np.float32) for axis in "xyz"} | {"t": values}, "a")
    np.testing.assert_allclose(scan.point_time, SWEEP, atol=2e-6)
    assert scan.time == (None if time is None else pytest.approx(time))
    assert note in "".join(scan.diagnostics)
    assert bool(scan.diagnostics) == bool(note)


@pytest.mark.parametrize(
    ("values", "note"),
    [
        (SWEEP * 1e6, "field t is not used as times of points: found 0 to 100000, expected seconds of one sweep"),
        ((1.7e9 + SWEEP).astype(np.float32), "times of points (t) lost their precision: float32 in steps of 128.0 s"),
        (345600 + 600 * SWEEP, ""),  # an aerial tile
        (SWEEP.astype(np.float32), ""),
    ],
)
def test_times_in_an_unknown_unit_and_without_precision_are_noted(values, note):
    scan = scan_from_fields({axis: np.zeros(50, np.float32) for axis in "xyz"} | {"t": values}, "a")
    assert "".join(scan.diagnostics).startswith(note)
    assert bool(scan.diagnostics) == bool(note)
