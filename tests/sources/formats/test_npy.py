# SPDX-License-Identifier: Apache-2.0
import io
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roadbed
from roadbed.core.errors import InputError
from roadbed.core.geometry import Pose
from roadbed.sources.formats.npy import read_npy, read_npz
from tests.sources.damage import damaged, reads_or_refuses

ROWS = np.arange(20, dtype=np.float64).reshape(4, 5)


def test_columns_are_coordinates_intensity_and_the_rest(tmp_path):
    np.save(tmp_path / "a.npy", ROWS)
    scan = roadbed.open(tmp_path / "a.npy")[0]
    np.testing.assert_array_equal(scan.points, ROWS[:, :3])
    np.testing.assert_array_equal(scan.intensity, ROWS[:, 3])
    np.testing.assert_array_equal(scan.channels["column_4"], ROWS[:, 4])
    assert scan.intensity.dtype == np.float64


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_order_and_organised_clouds(tmp_path, order):
    np.save(tmp_path / "a.npy", np.asarray(ROWS[:, :3].reshape(2, 2, 3), order=order))
    np.testing.assert_array_equal(read_npy(tmp_path / "a.npy").points, ROWS[:, :3])


@pytest.mark.parametrize("shape", [(4, 100, 4), (16, 100, 5), (64, 100, 12)])
def test_organised_clouds_have_few_columns_or_many_rows(tmp_path, shape):
    np.save(tmp_path / "a.npy", np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    np.testing.assert_array_equal(read_npy(tmp_path / "a.npy").points[1], np.arange(3) + shape[-1])


def test_structured_arrays_go_by_name(tmp_path):
    table = np.zeros(3, [("ring", "u1"), ("z", "f4"), ("y", "f4"), ("x", "f4"), ("t", "u4")])
    table["x"], table["t"] = [1, 2, 3], [0, 50_000_000, 100_000_000]
    np.save(tmp_path / "a.npy", table)
    scan = read_npy(tmp_path / "a.npy")
    np.testing.assert_array_equal(scan.points[:, 0], [1, 2, 3])
    np.testing.assert_allclose(scan.point_time, [0, 0.05, 0.1])
    assert scan.ring.dtype == np.uint8


def test_foreign_archives(tmp_path):
    np.savez(tmp_path / "a.npz", xyz=ROWS[:, :3], intensity=ROWS[:, 3], colour=ROWS[:, :2], grid=np.zeros((9, 9)))
    scan = read_npz(tmp_path / "a.npz")
    np.testing.assert_array_equal(scan.points, ROWS[:, :3])
    assert set(scan.channels) == {"colour"}
    assert scan.intensity is not None
    np.savez(tmp_path / "b.npz", x=ROWS[:, 0], y=ROWS[:, 1], z=ROWS[:, 2], ring=np.arange(4))
    assert read_npz(tmp_path / "b.npz").ring.tolist() == [0, 1, 2, 3]
    np.savez(tmp_path / "c.npz", points=ROWS[:, :4])
    assert read_npz(tmp_path / "c.npz").intensity.tolist() == ROWS[:, 3].tolist()


def test_archives_of_others_lose_no_array_pose_or_time(tmp_path):
    rows = {
        "Intensity": ROWS[:, 3],
        "colour": ROWS[:, :3],
        "label": np.arange(4),
        "name": np.full(4, "car"),
        "sensor": np.arange(4),
    }
    scalars = {"T_world_sensor": Pose.from_euler(1, 2, 3).matrix, "time": 5.0, "grid": np.zeros((9, 9))}
    for name, points in (("points", ROWS[:, :3]), ("points", ROWS), ("xyz", ROWS[:, :3])):
        np.savez(tmp_path / "a.npz", **{name: points}, **rows, **scalars)
        scan = read_npz(tmp_path / "a.npz")
        assert scan.intensity.tolist() == ROWS[:, 3].tolist()
        assert {"colour", "label", "sensor"} <= set(scan.channels)
        assert scan.time == 5
        assert scan.T_world_sensor.xyz == (1, 2, 3)
        assert scan.diagnostics == ("array name left out: found <U3, expected numbers",)


def test_times_of_points_beside_the_points(tmp_path):
    np.savez(tmp_path / "a.npz", points=ROWS[:, :3], time=1.7e9 + np.arange(4) / 8)
    scan = read_npz(tmp_path / "a.npz")
    assert scan.time == 1.7e9
    assert scan.point_time.tolist() == [0, 0.125, 0.25, 0.375]


@pytest.mark.parametrize("rows", [0, 1])
def test_no_points_and_one_point(tmp_path, rows):
    np.save(tmp_path / "a.npy", ROWS[:rows])
    assert len(read_npy(tmp_path / "a.npy")) == rows
    np.savez(tmp_path / "a.npz", points=ROWS[:rows, :3])
    assert len(read_npz(tmp_path / "a.npz")) == rows


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(5), r"shape: found \(5,\), expected \(N, 3\)"),
        (np.zeros((5, 2)), r"shape: found \(5, 2\), expected \(N, 3\)"),
        (np.zeros((2, 500)), r"shape: found \(2, 500\), expected \(N, 3\) to"),
        (
            np.zeros((3, 64, 32)),
            r"found \(3, 64, 32\), whose x, y and z may be in the axis of 3, expected them in the last",
        ),
        (np.zeros((5, 64, 16)), r"found \(5, 64, 16\), whose x, y and z may be in the axis of 5"),
        (np.zeros((2, 3, 64, 16)), r"found \(2, 3, 64, 16\), whose x, y and z may be in the axis of 3"),
        (np.zeros((3, 64, 4)), r"found \(3, 64, 4\), whose x, y and z may be in the axis of 3"),
        (np.array([["a", "b", "c"]]), "dtype: found <U1, expected numbers"),
        (np.zeros((2, 3), complex), "dtype: found complex128, expected numbers"),
        (np.zeros(2, [("a", "f4")]), "expected x, y and z of one number per point, found a"),
        (np.float64(3), r"shape: found \(\), expected"),
    ],
)
def test_arrays_that_are_no_points(tmp_path, array, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(InputError, match=message):
        read_npy(tmp_path / "a.npy")


class Bomb:
    """Unpickling this would create the file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_nothing_is_unpickled(tmp_path):
    bomb = np.array([Bomb(tmp_path / "exploded")], dtype=object)
    np.save(tmp_path / "a.npy", bomb, allow_pickle=True)
    np.savez(tmp_path / "a.npz", points=bomb)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    for file, read in (("a.npy", read_npy), ("a.npz", read_npz), ("b.npy", read_npy)):
        with pytest.raises(InputError, match=r"NumPy array|nothing is unpickled"):
            read(tmp_path / file)
    assert not (tmp_path / "exploded").exists()


def test_empty_and_truncated_files(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"")
    with pytest.raises(InputError, match="found an empty file"):
        read_npy(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", ROWS)
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-8])
    with pytest.raises(InputError, match=r"shape \(4, 5\) of float64: found 152 bytes, expected 160"):
        read_npy(tmp_path / "a.npy")
    (tmp_path / "a.npz").write_bytes(b"PK")
    with pytest.raises(InputError, match="not a readable npz archive"):
        read_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", other=ROWS)
    with pytest.raises(InputError, match="expected points or x, y and z, found other"):
        read_npz(tmp_path / "b.npz")


def test_promises_are_refused_before_memory_is_taken(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**15, 3)})
    (tmp_path / "a.npy").write_bytes(header.getvalue())
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("points.npy", header.getvalue())
    tracemalloc.start()
    for file, read in (("a.npy", read_npy), ("a.npz", read_npz)):
        with pytest.raises(InputError, match="expected 12000000000000000"):
            read(tmp_path / file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_bad_parts_of_an_archive(tmp_path):
    points = ROWS[:, :3]
    for name, value, message in (
        ("time", np.zeros(2), "time: found 2 numbers, expected one"),
        ("T_world_sensor", np.zeros((4, 4)), "T_world_sensor: pose: the 3x3 part is not a rotation"),
        ("T_world_sensor", np.zeros(4), "T_world_sensor: pose: expected a 3x4 or 4x4"),
        ("intensity", np.zeros(3), r"intensity: found shape \(3,\), expected \(4,\)"),
        ("intensity", np.float32(3), r"intensity: found shape \(\)"),
    ):
        np.savez(tmp_path / "a.npz", points=points, **{name: value})
        with pytest.raises(InputError, match=message):
            read_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", points=points, mount_names=np.array(["a"]), mount_poses=np.zeros((2, 4, 4)))
    with pytest.raises(InputError, match=r"mount_poses: found shape \(2, 4, 4\), expected \(1, 4, 4\)"):
        read_npz(tmp_path / "a.npz")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_files_give_a_scan_or_one_line(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp()
    stream = io.BytesIO()
    packed = data.draw(st.booleans())
    if packed:
        np.savez_compressed(stream, points=ROWS[:, :3], intensity=ROWS[:, 3], T_world_sensor=np.eye(4), time=1.0)
    else:
        np.save(stream, ROWS)
    file = folder / "damaged"
    file.write_bytes(data.draw(damaged(stream.getvalue())))
    reads_or_refuses(read_npz if packed else read_npy, file)


def npy_bytes(description: str, shape: str, data: bytes = bytes(96)) -> bytes:
    """A file whose header says what it likes."""
    header = f"{{'descr': {description}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + data


@pytest.mark.parametrize(
    ("description", "shape"),
    [
        ("'<f4'", f"(0, {2**63})"),
        ("'<f4'", f"(0, {2**62}, {2**62})"),
        ("'<f4'", f"(0, {10**400})"),
        ("'<f4'", "(True, 3)"),
        ("'<f4'", "(False, 3)"),
        ("'<f4'", "(-1, 3)"),
        ("'<f4'", "(2, 3.0)"),
        ("'<f4'", "(" + "1," * 70 + "3)"),
        ("'|S0'", "(4, 3)"),
        ("'|V0'", "(4, 3)"),
        ("'|V4'", "(4, 3)"),
        ("'|S4'", "(4, 3)"),
        ("'<U1'", "(4, 3)"),
        ("'<M8[s]'", "(4, 3)"),
        ("'<m8[s]'", "(4, 3)"),
        ("'<c8'", "(4, 3)"),
        ("'|O'", "(4, 3)"),
        ("[('x', '<f4'), ('y', '<f4'), ('z', '|S4')]", "(4,)"),
        ("[('x', '<f4'), ('y', '<f4'), ('z', '<c8')]", "(4,)"),
        ("[('x', '<f4'), ('y', '<f4'), ('z', '<f4'), ('t', '<M8[s]')]", "(4,)"),
        ("[('x', '<f4'), ('y', '<f4'), ('z', '<f4'), ('label', '<U1')]", "(4,)"),
        ("[('x', '<f4'), ('y', '<f4'), ('z', '<f4', (2147483647,))]", "(4,)"),
        ("[('x', '<f4'), ('y', '<f4'), ('z', [('a', '<f4')])]", "(4,)"),
    ],
)
def test_headers_that_describe_no_points(tmp_path, description, shape):
    data = np.array([b"1.5"] * 24).astype("S4").tobytes()  # numbers as text must not be taken for numbers
    (tmp_path / "a.npy").write_bytes(npy_bytes(description, shape, data))
    with pytest.raises(InputError) as caught:
        read_npy(tmp_path / "a.npy")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("points", np.full((4, 3), "1.5"), "points: dtype: found <U3, expected numbers"),
        ("points", np.ones((4, 3), complex), "points: dtype: found complex128, expected numbers"),
        ("points", np.zeros((4, 3), "M8[s]"), r"points: dtype: found datetime64\[s\], expected numbers"),
        ("classes", np.full(4, "7"), "classes: dtype: found <U1, expected numbers"),
        ("ring", np.full(4, b"7"), r"ring: dtype: found \|S1, expected numbers"),
        ("intensity", np.ones(4, complex), "intensity: dtype: found complex128, expected numbers"),
        ("point_time", np.zeros(4, "m8[s]"), r"point_time: dtype: found timedelta64\[s\], expected numbers"),
        ("time", np.nan, "time: found nan, expected one finite number"),
        ("time", np.inf, "time: found inf, expected one finite number"),
        ("time", "12", "time: dtype: found <U2, expected numbers"),
        ("channel.kind", np.full(4, "car"), "channel.kind: dtype: found <U3, expected numbers"),
        ("sensor", np.zeros(5), "sensor: found 5 values of float64, expected text"),
        ("T_world_sensor", np.diag([1.0, 1, 1, 1]).astype(complex), "T_world_sensor: dtype: found complex128"),
        ("T_world_sensor", np.full((4, 4), "1"), "T_world_sensor: dtype: found <U1"),
    ],
)
def test_parts_of_an_archive_that_are_no_numbers(tmp_path, name, value, message):
    np.savez(tmp_path / "a.npz", **{"points": ROWS[:, :3], name: value})
    with pytest.raises(InputError, match=message):
        read_npz(tmp_path / "a.npz")


def test_foreign_archives_with_text_beside_the_points(tmp_path):
    np.savez(tmp_path / "a.npz", xyz=ROWS[:, :3], ring=np.full(4, "7"))
    with pytest.raises(InputError, match="ring: dtype: found <U1, expected numbers"):
        read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("columns", [4, 5, 200, 300])
def test_transposed_arrays_are_called_so(tmp_path, columns):
    np.save(tmp_path / "a.npy", np.zeros((3, columns)))
    np.savez(tmp_path / "a.npz", points=np.zeros((3, columns)))
    for read, file in ((read_npy, "a.npy"), (read_npz, "a.npz")):
        with pytest.raises(InputError, match=rf"shape: found \(3, {columns}\), which looks transposed"):
            read(tmp_path / file)


def test_grids_of_results_are_not_unpacked_for_the_scan_beside_them(tmp_path):
    """Layers of a wide grid, mostly of one value, compress far better than any scan."""
    layers = {f"occupancy.layer_{k}": np.zeros((2000, 2000), np.float32) for k in range(4)}
    np.savez_compressed(tmp_path / "a.npz", points=ROWS[:, :3], **layers)
    assert (tmp_path / "a.npz").stat().st_size < 100_000
    assert len(read_npz(tmp_path / "a.npz")) == 4


def test_other_byte_orders_become_the_machines_own(tmp_path):
    np.savez(tmp_path / "a.npz", points=ROWS[:, :3].astype(">f8"), intensity=ROWS[:, 3].astype(">f4"))
    scan = read_npz(tmp_path / "a.npz")
    assert scan.intensity.dtype.isnative
    np.testing.assert_array_equal(scan.intensity, ROWS[:, 3])


def test_map_coordinates_of_an_archive_keep_their_place(tmp_path):
    place = np.array([450_000.0, 5_400_000.0, 100.0])
    np.savez(tmp_path / "a.npz", points=ROWS[:, :3] + place)
    np.savez(tmp_path / "b.npz", points=ROWS[:, :3] + place, T_world_sensor=np.eye(4))
    for name in ("a.npz", "b.npz"):
        scan = read_npz(tmp_path / name)
        placed = scan.T_world_sensor @ scan.points.astype(np.float64)
        np.testing.assert_allclose(placed, ROWS[:, :3] + place, atol=1e-6)


def test_text_that_is_none(tmp_path):
    beyond_unicode = np.frombuffer(b"\xff\xff\xff\x7f", "<U1").reshape(())
    np.savez(tmp_path / "a.npz", points=ROWS[:, :3], sensor=beyond_unicode)
    with pytest.raises(InputError, match="sensor: not a readable text"):
        read_npz(tmp_path / "a.npz")


def test_columns_of_an_array_by_name_and_scale(tmp_path):
    rows = np.arange(20, dtype=np.int32).reshape(5, 4)
    np.save(tmp_path / "a.npy", rows)
    scan = roadbed.open(f"{tmp_path}/a.npy?columns=ring,x,y,z&scale=0.01")[0]
    np.testing.assert_allclose(scan.points, rows[:, 1:] * 0.01, rtol=1e-6)
    assert scan.ring.tolist() == rows[:, 0].tolist()
    with pytest.raises(InputError, match=r"columns: found 4, expected 3 by \?columns="):
        roadbed.open(f"{tmp_path}/a.npy?columns=x,y,z")[0]


def test_a_grid_is_no_cloud(real_data):
    with pytest.raises(InputError, match=r"shape: found \(100, 100\), expected \(N, 3\) to \(N, 32\)"):
        roadbed.open(real_data / "stcrf-elevation/elevation")[0]
