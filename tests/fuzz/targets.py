# SPDX-License-Identifier: Apache-2.0
"""Everything that reads, with the cases it is given."""

import io
import json
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import laspy
import numpy as np
import yaml

import roadbed
from roadbed.config import Config
from roadbed.config.text import load_text
from roadbed.core.errors import RoadbedError, foreign_errors
from roadbed.core.frames import Scan
from roadbed.core.geometry import Grid
from roadbed.evaluate.masks import Masks
from roadbed.mapping.tile_store import TileStore
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.simulate.sensors import SENSORS, load_rig
from roadbed.sources import open_source
from roadbed.sources.bags.pointcloud2 import cloud_fields
from roadbed.sources.bags.rosbag import RosbagSource
from roadbed.sources.bags.scan_messages import scan_of_message
from roadbed.sources.bags.transforms import TransformGraph, message_pose, stamp_seconds
from roadbed.sources.datasets.argoverse import read_city_poses, read_sweep
from roadbed.sources.datasets.argoverse import read_mounts as read_argoverse_mounts
from roadbed.sources.datasets.kitti_raw import read_timestamps
from roadbed.sources.datasets.rig import read_mounts
from roadbed.sources.datasets.semantickitti import read_annotations
from roadbed.sources.fields import scan_from_fields
from roadbed.sources.formats.las import read_las
from roadbed.sources.formats.npy import read_npy, read_npz
from roadbed.sources.formats.pcd import read_pcd
from roadbed.sources.formats.ply import read_ply
from roadbed.sources.poses import read_calibration, read_poses, read_times
from roadbed.sources.sensors import hesai
from roadbed.sources.sensors.ouster import PROFILES, FrameAssembler, read_metadata
from roadbed.sources.sensors.pcap import PcapSource
from tests.fuzz import bags, clouds, feathers, texts
from tests.fuzz.damage import damage
from tests.sources.formats.test_las import point_wise
from tests.sources.sensors import ouster_files
from tests.sources.sensors.test_osf import FILES, WRITTEN, Unchecked

Make = Callable[[Random], bytes]
Run = Callable[[bytes, Path], None]


@dataclass(frozen=True)
class Target:
    """`make` gives the bytes of a case, `run` reads them in a scratch folder; `load` comes before any case."""

    name: str
    make: Make
    run: Run
    load: Callable[[], Any] = lambda: None


def damaged(makers: Sequence[Make], words: Sequence[bytes] = (), whole: float = 0.3) -> Make:
    """Cases as the makers write them, and damaged ones."""

    def make(rng: Random) -> bytes:
        data = rng.choice(makers)(rng)
        if rng.random() < whole:
            return data
        return damage(rng, data, words, [rng.choice(makers)(rng)] if rng.random() < 0.1 else ())

    return make


def seeds(make_seeds: Callable[[], Sequence[bytes]]) -> Make:
    """One of some whole files."""
    return lambda rng: rng.choice(make_seeds())


def file(name: str, read: Callable[[Path], Any]) -> Run:
    """Read the case as a file of this name."""

    def run(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(data)
        result = read(path)
        if isinstance(result, Scan):
            _look_at(result)

    return run


def _look_at(scan: Scan) -> None:
    """What a user of a scan relies on."""
    assert scan.points.dtype == np.float32
    assert scan.points.shape == (len(scan), 3)
    for name, values in scan.all_channels().items():
        assert len(values) == len(scan), name
        assert values.dtype.kind in "fiub", name
    assert sum(len(index) for _, index in scan.split()) <= len(scan)


@cache
def las_files() -> tuple[bytes, ...]:
    files = []
    for point_format, compressed in ((0, True), (3, False), (3, True), (6, True), (7, True), (8, True), (6, False)):
        header = laspy.LasHeader(point_format=point_format, version="1.4" if point_format > 5 else "1.2")
        header.scales = np.full(3, 0.01)
        header.add_extra_dim(laspy.ExtraBytesParams(name="extra", type=np.float32))
        cloud = laspy.LasData(header)
        cloud.x, cloud.y, cloud.z = np.random.default_rng(point_format).uniform(-50, 50, (3, 20))
        stream = io.BytesIO()
        cloud.write(stream, do_compress=compressed)
        files.append(stream.getvalue())
    return (*files, point_wise(files[0]))


def read_first(path: Path) -> Scan:
    return open_source(path)[0]


def read_records(path: Path) -> Scan:
    """Integers with a scale, as of NCLT."""
    options = {"columns": "x,y,z,intensity,ring", "dtype": "uint16,uint16,uint16,uint8,uint8", "scale": "0.005"}
    return open_source(path, offset="-100", **options)[0]


def read_bag(path: Path) -> None:
    source = RosbagSource(str(path))
    try:
        for scan in islice(source, 5):
            _look_at(scan)
        if len(source):
            _look_at(source[0])
    finally:
        source.close()


def read_bag_folder(storage: str, name: str) -> Run:
    """The case is the metadata of a bag whose storage is whole."""

    def run(data: bytes, folder: Path) -> None:
        bag = folder / f"bag_{storage}"
        bag.mkdir(exist_ok=True)
        (bag / name).write_bytes(bags.written(storage)[0])
        (bag / "metadata.yaml").write_bytes(data)
        read_bag(bag)

    return run


def read_capture(path: Path) -> None:
    for scan in islice(PcapSource(str(path)), 5):
        _look_at(scan)


def read_cloud_message(data: bytes, folder: Path) -> None:
    try:
        values = json.loads(data)
        values["data"] = bytes.fromhex(values["data"])
        values["fields"] = [SimpleNamespace(**field) for field in values["fields"]]
        message = SimpleNamespace(**values)
        sizes = (message.width, message.height, message.point_step, message.row_step, message.is_bigendian)
        sizes += tuple(v for f in message.fields for v in (f.offset, f.datatype, f.count, len(f.name)))
        if not all(isinstance(value, int) for value in sizes):
            return
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return  # no message: ROS gives numbers
    _look_at(scan_from_fields(cloud_fields(message, "message"), "message"))


@cache
def ros_messages(version: Any) -> RosMessages:
    return RosMessages(version)


def read_wire(version: int) -> Run:
    """Bytes as a topic brings them, through what the node makes of them; the first says which topic."""

    def run(data: bytes, folder: Path) -> None:
        kinds = [kind for _, kind, _ in bags.serialized(version)]
        kind = kinds[data[0] % len(kinds)] if data else kinds[0]
        with foreign_errors("/topic", kind):
            message = ros_messages(version).from_bytes(data[1:], kind)
        if kind.endswith("PointCloud2"):
            _look_at(scan_of_message(message, "/topic"))
        elif kind.endswith("Odometry"):
            assert np.isfinite(message_pose(message).matrix).all()
            stamp_seconds(message.header.stamp)
        else:
            transforms = TransformGraph()
            transforms.add(message)
            transforms.between("base_link", "lidar_top")

    return run


def read_log_tables(path: Path) -> None:
    with suppress(RoadbedError):
        read_argoverse_mounts(path)
    read_city_poses(path)


@cache
def ouster() -> Any:
    return read_metadata(ouster_files.metadata("RNG19_RFL8_SIG16_NIR16"), "sensor")


@cache
def ouster_packets() -> tuple[bytes, ...]:
    return tuple(islice(ouster_files.packets("RNG19_RFL8_SIG16_NIR16", 1), 4))


def read_ouster_packet(data: bytes, folder: Path) -> None:
    """Packets of any content, but of the sensor's size: others are counted and left out."""
    size = ouster().packet_bytes
    turn = FrameAssembler(ouster())
    for packet in ((data + bytes(size))[:size], *ouster_packets()[:1], b"\1\0\2\0" + ouster_packets()[1][4:]):
        scan = turn.add(ouster().decode(packet), 1.0, "packet")
        if scan is not None:
            _look_at(scan)


def read_hesai_packets(data: bytes, folder: Path) -> None:
    """Packets of 1080 bytes: of a PandarXT-32 unless the damage hit their marks."""
    packets = [(0.1 * k, data[k : k + 1080]) for k in range(0, len(data), 1080)]
    for scan in islice(hesai.scans_of_packets(packets, "packets"), 5):
        _look_at(scan)


def osf(rng: Random) -> bytes:
    """A file of ouster-sdk whose tables are damaged as often as its images."""
    whole = (FILES / rng.choice(sorted(WRITTEN))).read_bytes()
    begin, end = rng.choice(((0, 4000), (-6000, len(whole)), (0, len(whole))))
    parts = whole[:begin], whole[begin:end], whole[end:] if end < len(whole) else b""
    return parts[0] + damage(rng, parts[1]) + parts[2]


def read_osf(path: Path) -> None:
    with Unchecked(str(path)) as source:
        for scan in islice(source, 5):
            _look_at(scan)


def read_ouster_metadata(path: Path) -> None:
    read_metadata(load_text(path), "sensor")


@cache
def ouster_metadata() -> tuple[bytes, ...]:
    return tuple(ouster_files.metadata(name, flat=flat).encode() for name in PROFILES for flat in (True, False))


def read_config(data: bytes, folder: Path) -> None:
    config = Config.loads(data.decode("utf-8", "surrogateescape"))
    assert Config.loads(config.dumps()) == config


def read_tile(path: Path) -> None:
    grid = Grid.centred(20, 20, 1.0).around(32, 32)
    shape = grid.shape
    TileStore(path.parent, 1.0).load(grid, np.zeros((9, *shape), np.float32), 0.0, np.ones(shape, bool))


def read_map_index(path: Path) -> None:
    TileStore(path.parent, 1.0)


@cache
def tiles() -> tuple[bytes, ...]:
    stream = io.BytesIO()
    np.savez_compressed(stream, information=np.zeros((9, 64, 64), np.float32), base=np.float64(0))
    return (stream.getvalue(),)


@cache
def rigs() -> tuple[bytes, ...]:
    return tuple(yaml.safe_dump(SENSORS[name]().model_dump(mode="json")).encode() for name in ("vlp16", "lux4"))


def read_drive_rig(path: Path) -> None:
    read_mounts(path.parent)


def read_rig(path: Path) -> None:
    load_rig(str(path))


def open_location(data: bytes, folder: Path) -> None:
    len(roadbed.open(data.decode("utf-8", "surrogateescape")))


@cache
def command_line() -> Any:
    """The real command line, on which only the cheap commands do anything."""
    import typer

    from roadbed.cli import app

    group: Any = typer.main.get_command(app)
    for name in ("demo", "simulate", "view", "bench", "info"):
        command = group.commands[name]
        for heavy in getattr(command, "commands", {"": command}).values():
            heavy.callback = lambda **_: None
    return group


def load_commands() -> None:
    """What the commands import when they are called takes seconds on a busy machine, and is no case's doing."""
    for words in (["segment"], ["run"], ["evaluate", "ground"], ["evaluate", "occupancy"], ["config", "show"]):
        with suppress(RoadbedError, SystemExit), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            command_line().main([*words, "nowhere"], prog_name="roadbed")


def run_arguments(data: bytes, folder: Path) -> None:
    words = [word.decode("utf-8", "surrogateescape") for word in data.split(b"\0")]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        try:
            command_line().main(words, prog_name="roadbed")
        except SystemExit as end:
            if end.code not in (0, 2):
                raise


_PCD_WORDS = (b"FIELDS", b"SIZE", b"TYPE", b"COUNT", b"WIDTH", b"HEIGHT", b"POINTS", b"VIEWPOINT", b"DATA ascii\n")
_PCD_WORDS += (b"DATA binary\n", b"DATA binary_compressed\n", b" F", b" 8", b" U", b"x y z", b"_", b"#", b"\n", b"\r\n")
_PLY_WORDS = (b"element vertex ", b"property float x\n", b"property list uchar int a\n", b"end_header\n", b"ply\n")
_NPY_WORDS = (
    b"'descr'",
    b"'shape'",
    b"'fortran_order'",
    b"True",
    b"None",
    b"(",
    b")",
    b"[",
    b"'<f8'",
    b"'|S0'",
    b"'|O'",
)
_YAML_WORDS = (*b": ~- ~&a ~*a~<<: *a~!!int ~? ~---".split(b"~"), *(bytes([c]) for c in b"{}[]\n|>'"))
_TEXT_WORDS = (b" ", b"\n", b"nan", b"inf", b"1e999", b"#", b"\0", b"\xff", b"\xe2\x80\xa8", b"\r")


def all_targets() -> tuple[Target, ...]:
    ros1, database = (seeds(lambda kind=kind: (bags.written(kind)[0],)) for kind in ("ros1", "sqlite3"))
    metadata = seeds(lambda: (bags.written("mcap")[1],))
    binary = lambda rng: rng.randbytes(rng.choice((0, 16, 20, 80, 160, 81, 4800)))  # noqa: E731
    return (
        Target("pcd", damaged([clouds.pcd], _PCD_WORDS), file("case.pcd", read_pcd)),
        Target("ply", damaged([clouds.ply], _PLY_WORDS), file("case.ply", read_ply)),
        Target("las", damaged([seeds(las_files)], whole=0.01), file("case.las", read_las)),
        Target("npy", damaged([clouds.npy], _NPY_WORDS), file("case.npy", read_npy)),
        Target("npz", damaged([clouds.npz]), file("case.npz", read_npz)),
        Target("kitti", damaged([binary]), file("case.bin", read_first)),
        Target("nuscenes", damaged([binary]), file("case.pcd.bin", read_first)),
        Target("records", damaged([binary]), file("case.bin", read_records)),
        Target("table", damaged([texts.point_table], _TEXT_WORDS), file("case.csv", read_first)),
        Target("ptx", damaged([texts.ptx], _TEXT_WORDS), file("case.ptx", read_first)),
        Target("feather", damaged([feathers.sweep]), file("1.feather", read_sweep)),
        Target("feather poses", damaged([feathers.poses]), file("poses.feather", read_log_tables)),
        Target("pcap", damaged([bags.velodyne_capture, bags.hesai_capture]), file("case.pcap", read_capture)),
        Target("hesai packet", damaged([bags.hesai_packets]), read_hesai_packets),
        Target("hesai angles", damaged([bags.hesai_angles], _TEXT_WORDS), file("angles.csv", hesai.read_angles)),
        Target("ROS 1 drivers", bags.driver_bag(1), file("case.bag", read_bag)),
        Target("ROS 2 drivers", bags.driver_bag(2), file("case.mcap", read_bag)),
        Target("ouster", damaged([seeds(ouster_packets)], whole=0.05), read_ouster_packet),
        Target("ouster metadata", damaged([seeds(ouster_metadata)], whole=0.05), file("os.json", read_ouster_metadata)),
        Target("osf", osf, file("case.osf", read_osf)),
        Target("bag", damaged([ros1], whole=0.01), file("case.bag", read_bag)),
        Target("mcap", damaged([bags.mcap, seeds(lambda: (bags.written("mcap")[0],))]), file("case.mcap", read_bag)),
        Target("db3", damaged([database], whole=0.01), file("case.db3", read_bag)),
        Target("bag metadata", damaged([metadata], _YAML_WORDS, 0.01), read_bag_folder("mcap", "drive.mcap")),
        Target("PointCloud2", damaged([clouds.pointcloud2], whole=0.7), read_cloud_message),
        Target("ROS 1 wire", damaged([bags.wire(1)], whole=0.05), read_wire(1)),
        Target("ROS 2 wire", damaged([bags.wire(2)], whole=0.05), read_wire(2)),
        Target("poses", damaged([texts.poses], _TEXT_WORDS), file("poses.txt", read_poses)),
        Target("times", damaged([texts.times], _TEXT_WORDS), file("times.txt", lambda path: read_times(path, 3))),
        Target("timestamps", damaged([texts.timestamps], _TEXT_WORDS), file("stamps.txt", read_timestamps)),
        Target("calibration", damaged([texts.calibration], _TEXT_WORDS), file("calib.txt", read_calibration)),
        Target("objects", damaged([texts.objects], _TEXT_WORDS), file("objects.jsonl", read_annotations)),
        Target("masks", damaged([texts.masks], _TEXT_WORDS), file("masks.json", Masks.load)),
        Target("map tile", damaged([seeds(tiles)], whole=0.01), file("tile_0_0.npz", read_tile)),
        Target("map index", damaged([texts.map_index]), file("map.json", read_map_index)),
        Target("configuration", damaged([texts.yaml_text, texts.config_text], _YAML_WORDS), read_config),
        Target("rig", damaged([seeds(rigs), texts.yaml_text], _YAML_WORDS), file("rig.yaml", read_rig)),
        Target("drive's rig", damaged([seeds(rigs), texts.yaml_text], _YAML_WORDS), file("rig.yaml", read_drive_rig)),
        Target("location", damaged([texts.location], _TEXT_WORDS), open_location),
        Target("arguments", damaged([texts.arguments], (b"\0", b"-", b"=")), run_arguments, load_commands),
    )
