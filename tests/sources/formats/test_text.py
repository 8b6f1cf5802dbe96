# SPDX-License-Identifier: Apache-2.0
"""Tables of points as other programs write them."""

import numpy as np
import pytest

import roadbed
from roadbed.core.errors import InputError

POINTS = np.array([[1.5, -2.0, 0.25], [3.0, 4.0, -1.0]])
# Headers as written by libpointmatcher, CloudCompare, ParaView and NumPy.
TABLES = {
    "libpointmatcher.csv": "x,y,z,intensity\n1.5,-2,0.25,7\n3,4,-1,8\n",
    "cloudcompare.txt": "//X Y Z Intensity\n1.5 -2 0.25 7\n3 4 -1 8\n",
    "counted.asc": "//X,Y,Z,Scalar_Intensity\n2\n1.5,-2,0.25,7\n3,4,-1,8\n",
    "spaces.csv": "//X,Y,Z,Intensity,Scalar field #2\n1.5,-2,0.25,7,0,\n3,4,-1,8,0,\n",
    "semicolons.csv": '"X";"Y";"Z";"Intensity"\r\n1.5;-2;0.25;7\r\n3;4;-1;8\r\n',
    "paraview.csv": "intensity,Points_m_XYZ:0,Points_m_XYZ:1,Points_m_XYZ:2\n7,1.5,-2,0.25\n8,3,4,-1\n",
    "mixed.txt": "x y z, intensity\n1.5 -2 0.25, 7\n3 4 -1, 8\n",
    "numpy.csv": "# x y z intensity\n1.5e+00 -2.0e+00 2.5e-01 7\n3 4 -1 8\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_headers_of_other_programs(tmp_path, name):
    (tmp_path / name).write_text(TABLES[name])
    source = roadbed.open(tmp_path / name)
    assert source.name == "text"
    np.testing.assert_array_equal(source[0].points, POINTS)
    assert source[0].intensity.tolist() == [7, 8]


def test_tables_without_header_need_names(tmp_path):
    (tmp_path / "a.xyz").write_text("9 150 -200 25\n9 300 400 -100\n")
    with pytest.raises(InputError, match=r"found no header with x, y and z; name them by \?columns="):
        roadbed.open(tmp_path / "a.xyz")[0]
    scan = roadbed.open(f"{tmp_path}/a.xyz?columns=_,x,y,z&scale=0.01")[0]
    np.testing.assert_allclose(scan.points, POINTS)


def test_a_folder_of_tables_is_a_source_and_notes_next_to_scans_are_not(tmp_path):
    for k in (0, 1):
        (tmp_path / f"{k}.csv").write_text(f"x,y,z\n{k},0,0\n")
    assert [scan.points[0, 0] for scan in roadbed.open(tmp_path)] == [0, 1]
    (tmp_path / "scan.npy").write_bytes(b"")
    assert roadbed.open(tmp_path).name == "numpy"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found no row of numbers"),
        ("x,y,z\n1,2\n3,4,5\n", "requires 3 columns but 2 were found at row 1"),
        ("x,y,z\n1,2,3\n1,two,3\n", "could not convert string 'two' to float64 at row 2"),
        ("a,b,c\n1,2,3\n", "found no header with x, y and z"),
    ],
)
def test_bad_tables_end_in_one_line(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        roadbed.open(tmp_path / "a.csv")[0]


def test_rows_without_numbers_stay_points(tmp_path):
    for rows in (",,\n1,2,3\n,,\n4,5,6\n, ,", ";;\r\n1;2;3\r\n;;\r\n4;5;6\r\n;;\r\n"):
        (tmp_path / "a.csv").write_bytes(b"x,y,z\n" + rows.encode())
        points = roadbed.open(tmp_path / "a.csv")[0].points
        np.testing.assert_array_equal(points[:, 0], [np.nan, 1, np.nan, 4, np.nan])


PTX = "2\n1\n10 20 3\n0 1 0\n-1 0 0\n0 0 1\n0 1 0 0\n-1 0 0 0\n0 0 1 0\n10 20 3 1\n1.5 -2 0.25 0.5\n0 0 0 0.5\n"


def test_ptx_scans_have_the_pose_of_their_scanner(tmp_path):
    (tmp_path / "a.ptx").write_text(PTX * 2)
    source = roadbed.open(tmp_path / "a.ptx")
    assert (len(source), source.sequential) == (2, False)
    scan = source[1]
    np.testing.assert_array_equal(scan.points, [[1.5, -2, 0.25], [0, 0, 0]])
    np.testing.assert_allclose(scan.T_world_sensor @ scan.points[0].astype(float), [12, 21.5, 3.25])  # turned left
    assert scan.intensity.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found 0 lines"),
        ("x\n", "line 1: expected 1 numbers"),
        (PTX[:-20], "found 11 lines, expected 12"),
        (PTX.replace("2\n1\n", "2\n99999\n", 1), "expected 200008"),
        (PTX.replace("0 1 0 0\n", "0 9 0 0\n", 1), "line 7: "),
        (PTX.replace("0.25 0.5", "0.25 0.5 1"), "found 5 numbers, expected 3, 4 or 7"),
    ],
)
def test_bad_ptx_ends_in_one_line(tmp_path, text, message):
    (tmp_path / "a.ptx").write_text(text)
    with pytest.raises(InputError, match=message):
        roadbed.open(tmp_path / "a.ptx")[0]
