# SPDX-License-Identifier: Apache-2.0
"""Mutations aimed at the ground: each is a mistake that once went unnoticed, or its twin on a device."""

from tests.mutate.mutation import Mutation

_LABELS = ("ground/test_label_rules.py::test_one_point_per_label",)
_ALIGN = ("ground/test_alignment.py",)
_MOTION = ("ground/test_motion.py",)
_FIT = ("ground/test_mounting_fit.py",)
_EM = ("ground/test_em.py",)
_CPU, _DEVICE = "ground/stcrf/{}_cpu.py", "ground/stcrf/{}.cl"
_SHARED = ("ground/test_devices.py::test_nodes_with_any_number_of_points_agree_with_the_cpu",)


def _of(path: str, tests: tuple[str, ...], *changes: tuple[str, str]) -> list[Mutation]:
    return [Mutation(path, before, after, tests) for before, after in changes]


LABELS = [
    *_of(
        _CPU.format("labels/labels"),
        _LABELS,
        ("where(d >= rules.clearance, splat(np.int32(model.OVERHANG)), splat(np.int32(model.OBSTACLE)))", "splat(np.int32(model.OBSTACLE))"),
        ("where(d < -rules.low_outlier, low, above)", "above"),
    ),
    *_of(_CPU.format("labels/heights"), _LABELS, ("(d < ground_below) & (d >= -rules.low_outlier)", "d < ground_below")),
    *_of(_CPU.format("labels/decide"), ("ground/test_label_rules.py",), ("if d >= limit or d < -rules.low_outlier:", "if d >= limit:")),
    *_of(
        _DEVICE.format("labels/labels"),
        _LABELS,
        (": over >= RULE_CLEARANCE             ? OVERHANG", ": over >= 1e9f             ? OVERHANG"),
        ("RULE_HIGHEST) && dz >= -RULE_LOW_OUTLIER)", "RULE_HIGHEST))"),
        ("over < RULE_THRESHOLD && over >= -RULE_LOW_OUTLIER;", "over < RULE_THRESHOLD;"),
        (": is_low || over < -RULE_LOW_OUTLIER ? LOW_OUTLIER", ": is_low || over < -100.0f ? LOW_OUTLIER"),
    ),
]  # fmt: skip

ALIGNMENT = [
    *_of(
        "ground/stcrf/motion/grid_pose.py",
        _ALIGN,
        ("z - w - lower", "z - w + lower"),
        ("z - w - lower", "z - w - by.lift"),
        ("rotation_to_level(share * by.slope_x, share * by.slope_y)", "rotation_to_level(by.slope_x, by.slope_y)"),
        ("rotation_to_level(share * by.slope_x, share * by.slope_y)", "rotation_to_level(-share * by.slope_x, -share * by.slope_y)"),
        ("x - u, y - v, -w))", "x - u, y - v, z - w))"),
    ),
    *_of(_CPU.format("motion/align"), _ALIGN, ("sample[2, n], node[n] = dz, cell", "sample[2, n], node[n] = -dz, cell")),
    *_of(_DEVICE.format("motion/align"), _ALIGN, ("float dz = z - (plane.y + plane.z * dx + plane.w * dy);", "float dz = (plane.y + plane.z * dx + plane.w * dy) - z;")),
]  # fmt: skip

MOTION = [
    *_of(
        _CPU.format("motion/motion"),
        _MOTION,
        ("d_new = distance + sx_old * translation[0] + sy_old * translation[1] - translation[2]", "d_new = distance + sx_old * translation[0] + sy_old * translation[1]"),
        ("for _ in range(2):", "for _ in range(1):"),
        ("p01, p02 = cosine * s01 + sine * s02", "p01, p02 = cosine * s01 - sine * s02"),
        ("cross = F(2) * cosine * sine * s12", "cross = F(-2) * cosine * sine * s12"),
        ("+ cosine * sine * (s22 - s11)", "- cosine * sine * (s22 - s11)"),
        ("where(inside, share, splat(F(0)))", "share"),
    ),
    *_of(
        _DEVICE.format("motion/motion"),
        _MOTION,
        ("old.z * travel[1] - travel[2];", "old.z * travel[1];"),
        ("for (int pass = 0; pass < 2; ++pass)", "for (int pass = 0; pass < 1; ++pass)"),
        ("turned(found, plane, turn[0] / length, turn[3] / length)", "turned(found, plane, turn[0] / length, -turn[3] / length)"),
        ("s.x1 -= frame->lower * s.p01;", ""),
        ("s.x0 -= frame->lower * s.p00;", "s.x0 += frame->lower * s.p00;"),
    ),
]  # fmt: skip

MAP = [
    *_of("mapping/tile_store.py", ("mapping/test_tile_store.py",), ("raise_base(piece[None], tile.base - base)", "raise_base(piece[None], base - tile.base)"), ("raise_base(piece[None], base - tile.base)", "raise_base(piece[None], tile.base - base)")),
    *_of("mapping/information.py", (*_MOTION, "mapping"), ("((6, 0), (7, 1), (8, 2))", "((6, 0),)")),
    *_of(
        "ground/stcrf/motion/grid_pose.py",
        ("ground/test_drive.py::test_heights_are_counted_from_near_the_road_on_a_long_climb",),
        ("if abs(climb) <= _HIGHEST_CLIMB:", "if True:"),
        ("self._engine.move(Rolled(columns, rows, climb))", "self._engine.move(Rolled(columns, rows, 0.0))"),
        ("self._engine.move(Rolled(columns, rows, climb))", "self._engine.move(Rolled(columns, rows, -climb))"),
    ),
    *_of(
        "core/timeline.py",
        ("test_timeline.py",),
        ("metres > farthest or turn > limits.largest_turn", "metres > farthest"),
        ("farthest = limits.largest_step if seconds is None else", "farthest = math.inf if seconds is None else"),
        ("if seconds > limits.longest_pause:", "if False:"),
        ("return old.inverse() @ new", "return new.inverse() @ old"),
    ),
]  # fmt: skip

MOUNTING = [
    *_of(
        "ground/mounting/mounting_cpu.py",
        _FIT,
        ("(up if d > F(0) else down)", "(down if d > F(0) else up)"),
        ("_BELOW_PENALTY = 0.5", "_BELOW_PENALTY = 0.0"),
        ("_OUTLIER_GAP = F(0.3)", "_OUTLIER_GAP = F(1000)"),
    ),
    *_of("ground/mounting/estimator.py", ("ground/test_mounting.py",), ("elif len(self._planes) < _FIRST_SCANS:", "elif len(self._planes) <= _FIRST_SCANS:")),
    *_of("ground/stcrf/labels/heights_cpu.py", ("ground/test_label_rules.py",), ("(d < model.STRUCTURE_TOP)", "(d <= model.STRUCTURE_TOP)")),
    *_of("ground/stcrf/labels/vote_cpu.py", ("ground/test_vote.py",), ("for height in range(U(3)):", "for height in range(U(2)):")),
    *_of("ground/mounting/estimator.py", _FIT, ("Plane(height / math.sqrt(1 + slope_x**2 + slope_y**2), slope_x", "Plane(height, slope_x")),
    *_of("ground/mounting/estimator.py", ("config/test_presets.py",), ("if not (self.config.estimate or self.config.is_given):", "if False:")),
]  # fmt: skip

STCRF = [
    *_of(
        "ground/stcrf/cpu.py",
        _EM,
        ("few = self._warm and self._overlap(shaping) >= model.ENOUGH_PRIOR", "few = self._warm"),
    ),
    *_of(
        "ground/stcrf/device.py",
        _EM,
        ("if known < model.ENOUGH_PRIOR * max(1, known + unknown):", "if False:"),
    ),
    *_of(_CPU.format("em/em"), _EM, ("nodes, limit = points.active_nodes.nodes, rules.slope_limit", "nodes, limit = points.active_nodes.nodes, F(1e9)")),
    *_of(_CPU.format("surface/surface"), ("ground/test_uncertainty.py",), ("l1 * inverse1 + lever * l3 * inverse2", "l1 * inverse1")),
    *_of(_DEVICE.format("surface/surface"), ("ground/test_uncertainty.py",), ("by_x = l1 * inverse1 + by_y * l3", "by_x = l1 * inverse1")),
    *_of(_DEVICE.format("em/em"), _EM, ("float sx = fmin(fmax(plane.y, -SLOPE_LIMIT), SLOPE_LIMIT)", "float sx = plane.y")),
    *_of(_DEVICE.format("points/select"), _SHARED, ("mine = mine && (kind || segment.y <= SOME);", "mine = mine && (kind || segment.y <= FEW);")),
    *_of("ground/stcrf/programs.py", _SHARED, ("name: min(points, limit or points) for", "name: points for")),
    *_of("ground/stcrf/buffers.py", ("ground/test_devices.py::test_what_a_frame_was_given_is_not_written_again",), ("            setattr(self, name, output)\n        self._next = (), []", "            setattr(self, name, output)")),
    *_of("ground/stcrf/buffers.py", ("ground/test_devices.py::test_a_scan_that_does_not_fit_the_device_leaves_it_as_it_was",), ("        input_buffer = self._backend.input_buffer(", "        self.input_buffer = input_buffer = self._backend.input_buffer(")),
    *_of("ground/variance/variance_cpu.py", ("ground/test_variance.py::test_a_point_that_rounding_puts_on_the_far_border_belongs_to_the_last_cell",), ("min(column, columns - 1)", "column")),
    *_of("ground/variance/variance.cl", ("ground/test_variance.py::test_a_point_that_rounding_puts_on_the_far_border_belongs_to_the_last_cell",), ("min(column, COLUMNS - 1)", "column")),
]  # fmt: skip

GROUND = [*LABELS, *ALIGNMENT, *MOTION, *MAP, *MOUNTING, *STCRF]
