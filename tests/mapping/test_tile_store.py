# SPDX-License-Identifier: Apache-2.0
"""The long-term map gives back what was put in, from disk, in bounded memory."""

import subprocess
import sys

import numpy as np
import pytest

from roadbed import Config, GroundFilter, Pose, Scan
from roadbed.core.errors import ConfigError, InputError, OutputError
from roadbed.core.geometry import Grid
from roadbed.mapping.tile_store import TileStore
from tests.children import child
from tests.devices import BACKENDS, backend


def random_field(grid, seed=0):
    information = np.abs(np.random.default_rng(seed).normal(5, 1, (9, *grid.shape))).astype(np.float32)
    return information


@pytest.mark.parametrize("centre", [(0.0, 0.0), (-1000.3, 77.7)])
def test_round_trip_through_the_disk(tmp_path, centre):
    grid = Grid.centred(150, 90, 1.0).around(*centre)
    information = random_field(grid)
    everywhere = np.ones(grid.shape, bool)
    first = TileStore(tmp_path, 1.0, most_in_memory=4)
    first.begin(Pose.identity())
    first.store(grid, information, 0.0, everywhere)
    assert len(first._tiles._tiles) <= 4
    first.flush()
    again = TileStore(tmp_path, 1.0, most_in_memory=4)
    loaded = np.zeros_like(information)
    assert again.load(grid, loaded, 0.0, everywhere) == grid.size
    np.testing.assert_array_equal(loaded, information)
    assert not list(tmp_path.glob(".*"))


def test_another_base_height_shifts_the_information(tmp_path):
    grid = Grid.centred(10, 10, 1.0).around(0, 0)
    information = np.zeros((9, 10, 10), np.float32)
    information[0], information[6] = 4.0, 4.0 * 1.5  # h = 1.5 over a base of 10
    tiles = TileStore(tmp_path, 1.0)
    tiles.store(grid, information, 10.0, np.ones((10, 10), bool))
    loaded = np.zeros_like(information)
    tiles.load(grid, loaded, 11.0, np.ones((10, 10), bool))
    np.testing.assert_allclose(loaded[6] / loaded[0], 0.5)


def test_nodes_stored_later_from_another_base_fit_their_tile(tmp_path):
    """A tile keeps the base it was begun with; what comes later, counted from another, is the same height."""
    grid = Grid.centred(10, 10, 1.0).around(20, 20)  # in the middle of one tile
    left, right = np.zeros((10, 10), bool), np.zeros((10, 10), bool)
    left[:, :5], right[:, 5:] = True, True
    tiles = TileStore(tmp_path, 1.0)
    for height, base, leaving in ((1.5, 10.0, left), (0.25, 13.0, right)):
        information = np.zeros((9, 10, 10), np.float32)
        information[0], information[6] = 4.0, 4.0 * height
        tiles.store(grid, information, base, leaving)
    tiles.flush()
    assert len(list(tmp_path.glob("*.npz"))) == 1
    loaded = np.zeros((9, 10, 10), np.float32)
    tiles.load(grid, loaded, 12.0, np.ones((10, 10), bool))
    heights = loaded[6] / loaded[0]
    np.testing.assert_allclose(heights[:, :5], -0.5, atol=1e-6)
    np.testing.assert_allclose(heights[:, 5:], 1.25, atol=1e-6)


def test_only_the_nodes_asked_for_are_touched(tmp_path):
    grid = Grid.centred(20, 20, 1.0).around(0, 0)
    tiles = TileStore(tmp_path, 1.0)
    leaving = np.zeros((20, 20), bool)
    leaving[3] = True
    tiles.store(grid, random_field(grid), 0.0, leaving)
    loaded = np.zeros((9, 20, 20), np.float32)
    assert tiles.load(grid, loaded, 0.0, np.ones((20, 20), bool)) == 20
    assert (loaded[0] > 0).sum() == 20


def test_damaged_files_are_named(tmp_path):
    grid = Grid.centred(20, 20, 1.0).around(0, 0)
    (tmp_path / "tile_0_0.npz").write_bytes(b"not a tile")
    with pytest.raises(InputError, match="tile_0_0"):
        TileStore(tmp_path, 1.0).load(grid, np.zeros((9, 20, 20), np.float32), 0.0, np.ones((20, 20), bool))
    (tmp_path / "map.json").write_text("{}")
    with pytest.raises(InputError, match=r"map\.json"):
        TileStore(tmp_path, 1.0)


def test_map_of_another_spacing_is_refused(tmp_path):
    TileStore(tmp_path, 1.0).begin(Pose.identity())
    with pytest.raises(InputError, match="spacing"):
        TileStore(tmp_path, 0.5)


def test_vehicle_frame_cannot_keep_a_map(tmp_path):
    with pytest.raises(ConfigError, match="map_folder"):
        GroundFilter(Config.parse({"ground": {"time": {"motion": "vehicle"}}}), map_folder=tmp_path)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_vehicle_that_returns_knows_the_ground(tmp_path, name):
    def scan(x, time):
        random = np.random.default_rng(int(10 * x) % 97)
        points = random.uniform([-20, -20, -1.81], [20, 20, -1.79], (4000, 3))
        pose = Pose.from_euler(x, 0, 1.8)
        return Scan(points.astype(np.float32), time=time, T_world_sensor=pose, T_vehicle_sensor=Pose.from_euler(z=1.8))

    first = GroundFilter(backend=backend(name), map_folder=tmp_path)
    for k in range(40):
        first(scan(3.0 * k, 0.1 * k))
    first.save_map()
    assert (tmp_path / "map.json").exists()
    returned = GroundFilter(backend=backend(name), map_folder=tmp_path)
    few = scan(0.0, 0.0)
    frame = returned(Scan(few.points[:50], T_world_sensor=few.T_world_sensor, T_vehicle_sensor=few.T_vehicle_sensor))
    assert frame.used_prior
    assert np.isfinite(frame.elevation).sum() > 1000
    assert np.nanmax(np.abs(frame.elevation)) < 0.05


@pytest.mark.parametrize(
    "arrays",
    [
        {"information": np.zeros((9, 64, 64), np.float32), "base": np.nan},
        {"information": np.zeros((9, 64, 64), np.float32), "base": "high"},
        {"information": np.full((9, 64, 64), "1"), "base": 0.0},
        {"information": np.zeros((9, 64, 64), complex), "base": 0.0},
        {"information": np.zeros((9, 64, 65), np.float32), "base": 0.0},
        {"base": 0.0},
    ],
)
def test_tiles_of_anything_but_finite_numbers_are_refused(tmp_path, arrays):
    np.savez(tmp_path / "tile_0_0.npz", **arrays)
    grid = Grid.centred(20, 20, 1.0).around(0, 0)
    with pytest.raises(InputError, match="tile_0_0"):
        TileStore(tmp_path, 1.0).load(grid, np.zeros((9, 20, 20), np.float32), 0.0, np.ones((20, 20), bool))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"spacing": [], "version": 1}', "\udcff", '{"spacing": 1e999}', "[]"])
def test_an_index_that_is_none(tmp_path, text):
    (tmp_path / "map.json").write_text(text, errors="surrogateescape")
    with pytest.raises(InputError, match=r"map\.json: "):
        TileStore(tmp_path, 1.0)


def test_an_index_with_an_impossible_pose(tmp_path):
    TileStore(tmp_path, 1.0).begin(Pose.identity())
    text = (tmp_path / "map.json").read_text()
    for old, new in (("1.0, 0.0, 0.0, 0.0", "7.0, 0.0, 0.0, 0.0"), ("1.0, 0.0, 0.0, 0.0", "1.0")):
        (tmp_path / "map.json").write_text(text.replace(old, new, 1))
        with pytest.raises(InputError, match=r"map\.json: "):
            TileStore(tmp_path, 1.0)


HOLDS = """
import sys
from roadbed import Pose
from roadbed.mapping.tile_store import TileStore
store = TileStore(sys.argv[1], 1.0)
store.begin(Pose.identity())
print("begun", flush=True)
sys.stdin.read()
"""


def test_two_processes_do_not_extend_one_map(tmp_path):
    late = TileStore(tmp_path, 1.0)
    with child(sys.executable, "-c", HOLDS, tmp_path, stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == "begun\n"
        with pytest.raises(OutputError, match="another process extends this map"):
            TileStore(tmp_path, 1.0)
        with pytest.raises(OutputError, match="another process has begun this map"):
            late.begin(Pose.identity())
        process.stdin.close()
        process.wait()
    first, second = TileStore(tmp_path, 1.0), TileStore(tmp_path, 1.0)  # of one process
    assert first.T_map_world.numbers == second.T_map_world.numbers
