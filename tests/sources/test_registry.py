# SPDX-License-Identifier: Apache-2.0
import sys

import numpy as np
import pytest

import roadbed
from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.core.geometry import Pose
from roadbed.outputs.npz import write_npz
from roadbed.outputs.pcd import write_pcd
from roadbed.sources import registry

PLUGIN = '''
import numpy as np
import roadbed
from roadbed.sources import Source

class TextSource(Source):
    """One point per line."""
    name = "text"
    accepts = ("scale",)

    @classmethod
    def matches(cls, location):
        return location.endswith(".points")

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return roadbed.Scan(np.loadtxt(self.path, ndmin=2) * float(self.options.get("scale", 1)))
'''


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed package that offers a source, and one that is broken."""
    (tmp_path / "text_source.py").write_text(PLUGIN)
    info = tmp_path / "text_source-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: text-source\nVersion: 1.0\n")
    entries = "[roadbed.sources]\ntext = text_source:TextSource\nbroken = text_source:Missing\n"
    (info / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("text_source", None)


@pytest.mark.usefixtures("plugin")
def test_other_packages_add_sources_by_entry_point(tmp_path):
    (tmp_path / "a.points").write_text("1 2 3\n4 5 6\n")
    with pytest.warns(UserWarning, match="source broken"):
        source = roadbed.open(f"{tmp_path}/a.points?scale=2")
    assert source.name == "text"
    np.testing.assert_array_equal(source[0].points, [[2, 4, 6], [8, 10, 12]])
    with (
        pytest.warns(UserWarning, match="broken"),
        pytest.raises(InputError, match="unknown option 'size', expected one of scale"),
    ):
        roadbed.open(tmp_path / "a.points", size=3)


def test_register_puts_a_source_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_ADDED", {})

    class Mine(roadbed.Source):
        @classmethod
        def matches(cls, location):
            return location.endswith(".pcd")

        def __len__(self):
            return 0

    roadbed.register_source("mine", Mine)
    assert isinstance(roadbed.open(tmp_path / "a.pcd"), Mine)


def test_what_we_write_reads_back_as_the_same_drive(tmp_path):
    """Poses travel inside PCD and npz files; the first, at home, is the identity and not 'unknown'."""
    poses = [Pose.from_euler(2.0 * k, 0, 0, yaw=0.1 * k) for k in range(3)]
    for k, pose in enumerate(poses):
        scan = Scan(np.full((2, 3), k), T_world_sensor=pose)
        write_pcd(tmp_path / f"pcd/{k}.pcd", scan)
        write_npz(tmp_path / f"npz/{k}.npz", scan)
    for folder in ("pcd", "npz"):
        source = roadbed.open(tmp_path / folder)
        assert source.sequential
        for scan, pose in zip(source, poses):
            np.testing.assert_allclose(scan.T_world_sensor.matrix, pose.matrix, atol=1e-12)


def test_map_coordinates_with_poses_are_refused(tmp_path):
    for k in range(2):
        np.save(tmp_path / f"{k}.npy", np.full((4, 3), 500000.0))
    np.savetxt(tmp_path / "poses.txt", [np.eye(4)[:3].ravel()] * 2)
    with pytest.raises(InputError, match=r"found them around \(500000, 500000, 500000\), expected the sensor frame"):
        roadbed.open(tmp_path)[0]


def test_times_and_poses_of_a_folder(tmp_path):
    for k in range(3):
        np.save(tmp_path / f"{k}.npy", np.full((4, 3), k, np.float32))
    np.savetxt(tmp_path / "times.txt", [5.0, 5.1, 5.2])
    tum = tmp_path / "poses.txt"
    np.savetxt(tum, [[5.0 + 0.05 * k, k, 0, 0, 0, 0, 0, 1] for k in range(5)])
    source = roadbed.open(tmp_path)
    assert source.sequential
    assert [scan.T_world_sensor.translation[0] for scan in source] == pytest.approx([0, 2, 4])
    (tmp_path / "times.txt").unlink()
    with pytest.raises(InputError, match=r"poses: found 5, expected 3 \(one per scan, as the scans have no times\)"):
        roadbed.open(tmp_path)[0]
    np.savetxt(tum, [[5.0 + 0.1 * k, k, 0, 0, 0, 0, 0, 1] for k in range(3)])
    scan = roadbed.open(tmp_path)[2]
    assert scan.time == pytest.approx(5.2)
    assert scan.T_world_sensor.translation[0] == 2


@pytest.mark.parametrize("name", ["scan.ply.gz", "Drive.BAG.ZST", "scans.zip"])
def test_compressed_files_are_to_be_unpacked(tmp_path, name):
    (tmp_path / name).write_bytes(b"ply")
    with pytest.raises(InputError, match="compressed files are not read; unpack it first"):
        roadbed.open(tmp_path / name)


def test_e57_names_its_converters(tmp_path):
    (tmp_path / "site.e57").write_bytes(b"ASTM-E57")
    with pytest.raises(InputError, match=r"E57 is not read; convert it to LAS with CloudCompare or pdal translate"):
        roadbed.open(tmp_path / "site.e57")
