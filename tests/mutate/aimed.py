# SPDX-License-Identifier: Apache-2.0
"""Mutations aimed at code whose mistakes once went unnoticed; ground and occupancy have tables of their own."""

from tests.mutate.aimed_ground import GROUND
from tests.mutate.aimed_occupancy import OCCUPANCY
from tests.mutate.mutation import Mutation


def _of(path: str, tests: tuple[str, ...], *changes: tuple[str, str]) -> list[Mutation]:
    return [Mutation(path, before, after, tests) for before, after in changes]


_COMPUTE = [
    *_of("runtime/primitives_cpu.py", ("runtime/test_primitives.py",), ("high > wide, max(wide, high)", "high > wide, min(wide, high)"), ("-0.3302995 + t2", "-0.3302995 - t2")),
    *_of("live/dds_network.py", ("live/test_dds.py",), ("<SocketSendBufferSize max='4MiB'/>", "")),
    *_of("kernels/parallel.py", ("kernels/test_parallel.py",), ("_in_invoke.active = threads > 1", "_in_invoke.active = True")),
    *_of("runtime/philox.py", ("runtime/test_philox.py",), ("np.float32(2.0**-25)", "np.float32(0.0)"), ("np.float32(1 - 2.0**-24)", "np.float32(1.0)")),
]  # fmt: skip

_READERS = [
    *_of(
        "sources/datasets/kitti_raw.py",
        ("sources/datasets/test_kitti.py",),
        ("roll=row[3], pitch=row[4]", "roll=row[4], pitch=row[3]"),
        ("np.column_stack([east, north, rows[:, 2]])", "np.column_stack([east, north, 0 * rows[:, 2]])"),
    ),
    *_of("sources/bags/transforms.py", ("sources/bags/test_rosbag.py",), ("T_target_source @ self._edges[parent][child]", "self._edges[parent][child] @ T_target_source")),
    *_of("sources/bags/pointcloud2.py", ("sources/bags/test_rosbag.py",), (" and row_step >= width * step", "")),
    *_of(
        "sources/formats/ply.py",
        ("sources/formats/test_ply.py",),
        ("int.from_bytes(length, item.byte_order, signed", 'int.from_bytes(length, "little", signed'),
        ("if repeats < 0 or start > len(body):", "if start > len(body):"),
        ('signed=item.length_dtype.kind == "i"', "signed=True"),
    ),
]  # fmt: skip

_OUTPUTS = [
    *_of("io/atomic.py", ("io/test_atomic.py",), ("os.O_EXCL, 0o666)", "os.O_EXCL, 0o600)")),
    *_of("outputs/bag.py", ("outputs/test_bag.py",), ("(self._scans - 1) if scan.time is None", "(self._scans + 1) if scan.time is None"), ("if scan is not self._last:", "if True:")),
    *_of("viewer/drape.py", ("viewer/test_drape.py",), ("28 + len(text) + len(body)", "12 + len(text) + len(body)"), ("28 + len(text) + len(body)", "28 + len(text) - len(body)")),
    *_of("outputs/recording.py", ("outputs/test_recording.py",), ("np.asarray(value).tolist() for name, value in vars(item).items()", "np.asarray(item.velocity if name == 'position' else value).tolist() for name, value in vars(item).items()"), ("np.asarray(value).tolist() for name", "np.asarray(item.position if name == 'velocity' else value).tolist() for name")),
]  # fmt: skip

_EVALUATION = [
    *_of("evaluate/metrics.py", ("evaluate",), ("mean_of_known(values) for values in zip", "values[-1] for values in zip"), ("np.sqrt(np.mean(error**2))", "np.mean(error)")),
    *_of("evaluate/ground.py", ("evaluate",), ("np.sqrt(np.average([s.rmse_m**2 for s in known], weights=nodes))", "np.average([s.rmse_m for s in known], weights=nodes)"), ("known], weights=nodes))\n\n", "known]))\n\n")),
    *_of("evaluate/masks.py", ("evaluate",), ("hit_counts <= MOST_HITS", "hit_counts <= 10**9"), ("if abs(frame - seen) <= 1:", "if True:")),
    *_of(
        "evaluate/occupancy_boxes.py",
        ("evaluate",),
        ("good[k] and good[k:].mean() >= 0.9", "good[k]"),
        ("_mean([100.0 * (e is not None and abs(e) <= 0.1) for e in errors])", "_mean([100.0 * (abs(e) <= 0.1) for e in errors if e is not None])"),
        ('"unseen_frames": len(annotated) - len(late)', '"unseen_frames": 0'),
    ),
    *_of("evaluate/occupancy_truth.py", ("evaluate",), ("np.count_nonzero(free & _interior(there.occupied))", "np.count_nonzero(free & there.occupied)")),
    *_of("evaluate/elevation.py", ("evaluate",), ("(count >= self.support)", "(count >= 0)"), ("Grid(self.x0, self.y0,", "Grid(self.y0, self.x0,"), ("(u - column) * slope[..., 0] + (v - row) * slope[..., 1]", "(u - column) * slope[..., 1] + (v - row) * slope[..., 0]")),
]  # fmt: skip

_SIMULATOR = [
    *_of("simulate/caster.py", ("simulate/test_sequence.py",), ("reflectivity / 0.1 * math.sqrt(cosine)", "reflectivity / 0.1"), ("reflectivity * (0.3 + 0.7 * cosine)", "reflectivity")),
    *_of("simulate/truth.py", ("simulate/test_truth.py",), ("[-rate * arm[:, 1], rate * arm[:, 0],", "[rate * arm[:, 1], -rate * arm[:, 0],")),
    *_of("simulate/sequence.py", ("simulate/test_sequence.py",), ("velocity + arm,", "velocity,"), ("T_vehicle_sensor.rotation.T @ rate,", "-T_vehicle_sensor.rotation.T @ rate,")),
]  # fmt: skip

_CONFIGURATION = [
    *_of(
        "config/ground.py",
        ("config",),
        ("if self.beta + self.gamma >= 1:", "if False:"),
        ("if limits != sorted(limits):", "if False:"),
        ("if self.spacing / self.pillar > 100:", "if False:"),
        ("if low >= high:", "if low > high:"),
    ),
    *_of("config/presets.py", ("config",), (" if rule not in _OPEN_IN_THE_PAPER]", "]"), ('"iterations": 10,\n                "warm', '"iterations": 11,\n                "warm'), ('"mounting": {"estimate": False},', "")),
]  # fmt: skip

_VIEWER = [
    *_of("viewer/runner.py", ("viewer/test_player.py",), ("first = max(self._scans.bounds()[0], index - past) if self._scans.sequential else index", "first = index")),
    *_of("viewer/player.py", ("viewer/test_player.py",), ("due = started + pause / self._speed", "due = started + pause * self._speed")),
    *_of("viewer/scans.py", ("viewer/test_scans.py",), ("lru_cache(maxsize=keep)", "lru_cache(maxsize=2)")),
]  # fmt: skip

AIMED = [
    *_CONFIGURATION, *_READERS, *_OUTPUTS, *_EVALUATION, *_COMPUTE, *OCCUPANCY, *GROUND, *_SIMULATOR, *_VIEWER,
]  # fmt: skip
