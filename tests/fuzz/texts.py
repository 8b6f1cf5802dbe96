# SPDX-License-Identifier: Apache-2.0
"""Texts: configurations, rigs, metadata, poses, times, calibrations, boxes, masks, locations and command lines."""

import json
from functools import cache
from random import Random

from roadbed.config import Config
from tests.fuzz.clouds import odd

_NUMBERS = ("0", "1", "-1", "0.5", "1e9", "1e30", "1e400", "nan", ".inf", "9" * 40, "1_0", "0x1f", "1:30", "", "x", "~")
_SCALARS = (
    *_NUMBERS,
    "true",
    "no",
    "2011-09-26",
    "2011-99-99",
    "'7'",
    '"\\u0000"',
    "!!int x",
    "!!binary x",
    "*a",
    "&a 1",
)
_KEYS = ("ground", "occupancy", "stcrf", "labels", "grid", "filter", "backend", "seed", "preset", "beta", "gamma", "<<")
_KEYS += ("grid_resolution", "pointcloud_limits", "mounting", "height", "sensors", "1", "? x", "&k key", "2011-09-26")


def yaml_text(rng: Random) -> bytes:
    """A mapping from the configuration's own names and from anything."""
    return _mapping(rng, 0).encode()


def _mapping(rng: Random, depth: int) -> str:
    lines = []
    for _ in range(rng.randint(1, 4)):
        indent = "  " * depth
        kind = rng.random()
        if kind < 0.5 or depth > 4:
            lines.append(f"{indent}{rng.choice(_KEYS)}: {rng.choice(_SCALARS)}\n")
        elif kind < 0.65:
            lines.append(f"{indent}{rng.choice(_KEYS)}: [{', '.join(rng.choices(_SCALARS, k=rng.randint(0, 3)))}]\n")
        elif kind < 0.7:
            lines.append(f"{indent}{rng.choice(_KEYS)}: {rng.choice('[{') * rng.choice((3, 40, 3000))}\n")
        else:
            lines.append(f"{indent}{rng.choice(_KEYS)}:\n{_mapping(rng, depth + 1)}")
    return "".join(lines)


@cache
def _preset_lines(name: str) -> tuple[str, ...]:
    return tuple(Config.preset(name).dumps().splitlines())


def config_text(rng: Random) -> bytes:
    """A whole configuration with some values exchanged."""
    lines = list(_preset_lines(rng.choice(("default", "paper"))))
    for _ in range(rng.choice((0, 1, 1, 2))):
        place = rng.randrange(len(lines))
        name, _, value = lines[place].partition(":")
        if value.strip():
            lines[place] = f"{name}: {rng.choice((rng.choice(_SCALARS), '1', '0.5', value.strip()))}"
    return "\n".join(lines).encode()


def table(rng: Random, width: int, rows: int) -> bytes:
    """Rows of numbers, as poses and times are."""
    lines = []
    for row in range(rows):
        words = ["1", "0", "0", "0", "0", "1", "0", "0", "0", "0", "1", "0"] if width == 12 else [str(row)] * width
        if width == 8:
            words = [str(row), "0", "0", "0", "0", "0", "0", "1"]
        words = [odd(rng, word, *_NUMBERS, chance=0.02) for word in words]
        if rng.random() < 0.02:
            words.append("7")
        lines.append(rng.choice((" ", " ", ", ", "\t")).join(words))
    return rng.choice((b"\n", b"\n", b"\r\n", b"\r")).join(line.encode() for line in lines)


def poses(rng: Random) -> bytes:
    return table(rng, rng.choice((12, 8)), 3)


def times(rng: Random) -> bytes:
    return table(rng, 1, 3)


def timestamps(rng: Random) -> bytes:
    stamps = ("2011-09-26 13:02:25.594360375", "2011-09-26 13:02:26", "9999-12-31 23:59:59.9", "0001-01-01 00:00:00.1")
    return "\n".join(rng.choices((*stamps, "noon", "", "2011-09-26 13:02:25.", "2011-02-30 1:1:1"), k=3)).encode()


def calibration(rng: Random) -> bytes:
    row = " ".join(
        odd(rng, word, *_NUMBERS, chance=0.05)
        for word in ["0", "-1", "0", "0", "0", "0", "-1", "0", "1", "0", "0", "0"]
    )
    return f"P0: 1 2 3\ncalib_time: 25-May-2012\n{odd(rng, 'Tr', 'R', 'T', '')}: {row}\n".encode()


def objects(rng: Random) -> bytes:
    lines = []
    for frame in range(2):
        box: dict[str, object] = {
            "id": odd(rng, 1, None, [], {}),
            "kind": odd(rng, "Van", 3, None),
            "footprint": odd(rng, [[0, 0], [1, 0], [1, 1], [0, 1]], [], [[0]], "x", [[1e999] * 2] * 4, None),
            "z": odd(rng, -1.7, "x", None, 1e999, [], 10**400),
            "height": odd(rng, 2.0, "x", None, {}),
        }
        if rng.random() < 0.1:
            box.pop(rng.choice(list(box)))
        entry = {"frame": odd(rng, frame, -1, 1e999, "x", None, 10**400), "objects": odd(rng, [box], box, None, [3])}
        lines.append(json.dumps(entry))
    return "\n".join(lines).encode() + (b"[" * 3000 if rng.random() < 0.02 else b"")


def masks(rng: Random) -> bytes:
    rectangle = odd(rng, [0, 1, 2, 3], [], "x", None, [0, 1, 2, "x"], [1e999] * 4, [[1]] * 4)
    passers = odd(rng, [{"rectangle": [0, 1, 2, 3], "radius": 1}], [{}], [3], None, [{"strip": 1, "radius": 1}])
    content = {"rectangles": odd(rng, [rectangle], None, 3), "strips": [[0, 1, 2, 3, 4]], "passers": passers}
    return json.dumps(odd(rng, content, [], None, 3)).encode()


def map_index(rng: Random) -> bytes:
    matrix = odd(rng, [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], [], [[1]], None, [["1"] * 4] * 4)
    index = {"version": odd(rng, 1, 2, None, "1"), "spacing": odd(rng, 1.0, None, 1e999, "1", -1)}
    return json.dumps({**index, "T_lattice_world": matrix}).encode()


_PLACES = (
    "none.pcd",
    "none/",
    ".",
    "/dev/null",
    "",
    "a" * 300,
    "none.bag",
    "sim:",
    "sim:nowhere",
    "x?y",
    "café",
    "a\tb",
)
_OPTIONS = (
    "poses=none.txt",
    "times=/dev/null",
    "topic=/a",
    "frames=0",
    "seed=-1",
    "x=1",
    "=",
    "a=",
    "sensor=none.yaml",
)


def location(rng: Random) -> bytes:
    """Addresses of sources that are not there."""
    options = "&".join(rng.choices(_OPTIONS, k=rng.randint(0, 3)))
    return (rng.choice(_PLACES) + rng.choice(("", "?", "??")) + options).encode()


_COMMANDS = ("segment", "run", "evaluate", "bench", "simulate", "demo", "info", "view", "config", "nothing", "--help")
_SUBCOMMANDS = ("ground", "occupancy", "show", "check", "pipeline", "--help")
_FLAGS = (
    "--config",
    "-c",
    "--preset",
    "--output",
    "-o",
    "--backend",
    "--json",
    "--frame",
    "--frames",
    "--method",
    "--map",
)
_FLAGS += ("--seed", "--port", "--protocol", "--scene", "--sensor", "--no-occupancy", "--", "-", "--x=1")
_VALUES = (
    *_PLACES,
    "default",
    "paper",
    "cpu",
    "opencl",
    "7",
    "-1",
    "1e9",
    "9" * 30,
    "nan",
    "stcrf",
    "ground.yaml",
    "\ud7ff",
)


def arguments(rng: Random) -> bytes:
    """A command line, its words apart by null bytes."""
    words = [rng.choice(_COMMANDS)]
    if words[0] in ("evaluate", "bench", "config") and rng.random() < 0.9:
        words.append(rng.choice(_SUBCOMMANDS))
    for _ in range(rng.randint(0, 5)):
        words.append(rng.choice(_FLAGS) if rng.random() < 0.5 else rng.choice(_VALUES))
    return b"\0".join(word.encode("utf-8", "surrogatepass") for word in words)


def point_table(rng: Random) -> bytes:
    """Points as CSV or TXT."""
    separator = rng.choice((",", ";", " ", "\t"))
    names = rng.choice((["x", "y", "z"], ["X", "Y", "Z", "Intensity"], ["a", "b", "c"], ["//X", "Y", "Z", "", "ring"]))
    rows = [[f"{rng.uniform(-99, 99):.3f}" for _ in names] for _ in range(rng.choice((0, 1, 20)))]
    return "\n".join(separator.join(row) for row in [names, *rows]).encode()


def ptx(rng: Random) -> bytes:
    """A scan of a PTX file."""
    columns, rows = rng.choice((1, 2, 5)), rng.choice((1, 4))
    header = f"{columns}\n{rows}\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n1 0 0 0\n0 1 0 0\n0 0 1 0\n5 6 7 1\n"
    points = "".join(f"{rng.uniform(-9, 9):.3f} 1 2 0.5\n" for _ in range(columns * rows))
    return (header + points).encode() * rng.choice((1, 2))
