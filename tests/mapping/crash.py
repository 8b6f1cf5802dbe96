# SPDX-License-Identifier: Apache-2.0
"""Kills a process at random moments while it writes a map or its products: `python -m tests.mapping.crash --kills 100`.

After each kill every tile must be whole and every product either absent or the same bytes as always; the next process
that writes there removes what the killed one left behind.
"""

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import numpy as np

from roadbed import Pose
from roadbed.core.geometry import Grid
from roadbed.mapping.reader import MapReader
from roadbed.mapping.tile_store import TileStore
from roadbed.outputs.folder import OutputFolder
from roadbed.outputs.maps.export import PARTS, export_map
from tests.mapping.maps import write_plane_map

_PRODUCTS = ("geotiff", "ply")
_LATTICE = Grid.centred(120, 120, 1.0).around(0, 0)


def write_map(folder: Path, first: int = 0, generations: int | None = None) -> None:
    """Generation after generation, each with one number everywhere, so that a mixture would show."""
    tiles = TileStore(folder, 1.0, most_in_memory=3)
    tiles.begin(Pose.identity())
    everywhere = np.ones(_LATTICE.shape, bool)
    for generation in count(first) if generations is None else range(first, first + generations):
        information = np.full((9, *_LATTICE.shape), generation + 1, np.float32)
        tiles.store(_LATTICE, information, 0.0, everywhere)
        tiles.flush()


def write_products(map_folder: Path, out: Path) -> None:
    export_map(MapReader(map_folder), OutputFolder(out, PARTS, command="crash", force=True), _PRODUCTS)


def killed(work: Callable[[], None], longest_s: float) -> None:
    """Run `work` again and again in a child, and kill it at a random moment."""
    child = os.fork()
    if child == 0:
        while True:
            work()
    time.sleep(random.uniform(0, longest_s))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def temporaries(folder: Path) -> int:
    return sum(name.startswith(".roadbed-") for name in os.listdir(folder)) if folder.is_dir() else 0


def kill_map_writers(folder: Path, kills: int) -> dict[str, int]:
    write_map(folder, 0, 1)
    begin = time.perf_counter()
    write_map(folder, 1, 1)
    one = time.perf_counter() - begin
    found = {"kills": kills, "corrupt": 0, "left_behind": 0}
    for generation in range(2, kills + 2):
        killed(lambda generation=generation: write_map(folder, 10 * generation), 4 * one)
        stored = MapReader(folder)
        for key in stored.ground.keys:
            tile = stored.ground.get(key)
            values = np.zeros(0) if tile is None else np.unique(tile.information[0][tile.information[0] > 0])
            found["corrupt"] += len(values) != 1
        found["left_behind"] += temporaries(folder)
    write_map(folder, 0, 1)
    found["left_in_the_end"] = temporaries(folder)
    return found


def kill_exporters(folder: Path, kills: int) -> dict[str, int]:
    write_plane_map(folder / "map", size=60.0)
    begin = time.perf_counter()
    write_products(folder / "map", folder / "good")
    one = time.perf_counter() - begin
    good = {path.name: path.read_bytes() for path in (folder / "good").iterdir() if path.suffix != ".jsonl"}
    found = {"kills": kills, "corrupt": 0, "left_behind": 0, "whole": 0}
    for _ in range(kills):
        killed(lambda: write_products(folder / "map", folder / "out"), 2.5 * one)
        for name, data in good.items():
            path = folder / "out" / name
            if path.exists():
                found["whole"] += path.read_bytes() == data
                found["corrupt"] += path.read_bytes() != data
        found["left_behind"] += temporaries(folder / "out")
    write_products(folder / "map", folder / "out")
    found["left_in_the_end"] = temporaries(folder / "out")
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    random.seed(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        found = {
            "map": kill_map_writers(Path(folder) / "m", asked.kills),
            "products": kill_exporters(Path(folder), asked.kills),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
