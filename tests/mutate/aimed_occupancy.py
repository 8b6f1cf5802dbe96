# SPDX-License-Identifier: Apache-2.0
"""Mutations aimed at the occupancy: observation, fusion, births, cells, velocities and objects."""

from tests.mutate.mutation import Mutation

_OBSERVE = ("occupancy/test_observe.py",)
_FUSE = ("occupancy/test_fuse.py",)
_BIRTHS = ("occupancy/test_births.py",)
_CELLS = ("occupancy/test_cells.py",)
_REGISTER = ("occupancy/test_register.py", "occupancy/test_register_standing.py")
_ONE_CELL = ("occupancy/test_hsbof.py::test_one_cell_agrees_with_the_oracle",)


def _of(path: str, tests: tuple[str, ...], *changes: tuple[str, str]) -> list[Mutation]:
    return [Mutation(f"occupancy/{path}", before, after, tests) for before, after in changes]


OCCUPANCY = [
    *_of(
        "observation/observe_cpu.py",
        _OBSERVE,
        ("return plane[0] + plane[1] * x + plane[2] * y", "return plane[0]"),
    ),
    *_of(
        "observation/sensor_model_cpu.py",
        _OBSERVE,
        ("block[_SLOPE_X + i] * block[_TO_X + i] + block[_SLOPE_Y + i] * block[_TO_Y + i]", "0.0"),
        ("block[_SLOPE_X + i] * block[_TO_X + i] + block[_SLOPE_Y + i] * block[_TO_Y + i]", "block[_SLOPE_Y + i] * block[_TO_X + i] + block[_SLOPE_X + i] * block[_TO_Y + i]"),
        ("if farthest[azimuth] >= bin_:", "if False:"),
    ),
    *_of(
        "fusion/observed_grids.py",
        _FUSE,
        ("(self.reliability(sensor) * math.exp(", "(math.exp("),
        ("math.exp(-(time - item.time) / self.config.age_constant)", "1.0"),
        ("if s not in reporting and time - item.time > self.config.forget]", "if False]"),
        ("item.motion = item.motion.then(motion)", "pass"),
    ),
    *_of(
        "fusion/fuse_cpu.py",
        _FUSE,
        ("conflict = o1 * f2 + f1 * o2", "conflict = 0.0"),
        ("scale = 1 / (1 - conflict)", "scale = 1.0"),
        ("return occupied, free, unknown + conflict", "return occupied, free, unknown"),
    ),
    *_of(
        "hsbof/birth_cpu.py",
        _BIRTHS,
        ("speed = reach * math.sqrt(radius)", "speed = reach * radius"),
        ("direction = 1.0 if angle < 0.5 else -1.0", "direction = 1.0"),
        ("velocities.mean[r, c, 0] + rule.seed_spread * nx", "velocities.mean[r, c, 0]"),
        ("velocities.mean[r, c, 1] + rule.seed_spread * ny", "-velocities.mean[r, c, 1] + rule.seed_spread * ny"),
        ("if choice >= rule.seeded:", "if True:"),
        ("born.mass[k] = birth[row, column] / born_in[cell]", "born.mass[k] = birth[row, column]"),
        ("reach = rule.fast_speed if choice < rule.traffic + rule.fast else rule.speed", "reach = rule.speed"),
        ("born.x[k] = (column + px) * cells.spacing", "born.x[k] = (column + 0.5) * cells.spacing"),
    ),
    *_of(
        "hsbof/cells_cpu.py",
        _CELLS,
        ("there = (left + i + 0.5 - x) ** 2 + across", "there = (left + i - x) ** 2 + across"),
    ),
    *_of("hsbof/masses_cpu.py", _CELLS, ("return q * rules.maturity_decay", "return q")),
    *_of(
        "hsbof/cells_cpu.py",
        _ONE_CELL,
        ("if hit or not rules.hits_only:", "if hit:"),
    ),
    *_of("hsbof/no_evidence_cpu.py", _ONE_CELL, ("if not rules.hits_only:", "if False:")),
    *_of(
        "hsbof/masses_cpu.py",
        _ONE_CELL,
        ("k = seen * u if rules.keep_unknown else u", "k = seen * u"),
        ("e + rules.vacated * seen * d", "e + seen * d"),
    ),
    *_of(
        "hsbof/model.py",
        _CELLS,
        ('"maturity_decay": model.maturity_decay**steps', '"maturity_decay": model.maturity_decay'),
    ),
    *_of(
        "hsbof/velocities_cpu.py",
        _CELLS,
        ("alike += dx * dx + dy * dy <= limit", "alike += 1"),
        ("alike, hits = -1, 0", "alike, hits = 0, 0"),
    ),
    *_of(
        "hsbof/velocities_cpu.py",
        ("occupancy/test_rules.py",),
        ("range(max(row - ALIKE_REACH, 0), min(row + ALIKE_REACH + 1, rows))", "range(max(row - 1, 0), min(row + 2, rows))"),
        ("probability[r, c] > HIT and (r != row or c != column)", "probability[r, c] > HIT"),
    ),
    *_of(
        "registration/register_cpu.py",
        _REGISTER,
        ("return long_static >= STATIC_SHARE * cells.shape[0]", "return long_static > 0"),
        ("count += agreement(now, former[k, 0], former[k, 1]) < 0", "count += 0"),
        ("freed * (count + old_count)", "freed * count"),
        ("if extent <= rule.small:", "if extent < rule.small:"),
    ),
    *_of(
        "registration/register.cl",
        ("occupancy/test_register_device.py",),
        ("freed * (c.count + c.old_count)", "freed * c.count"),
    ),
    *_of(
        "registration/register_device.py",
        ("occupancy/test_filter.py::test_the_memory_that_is_announced_for_a_device_is_enough_and_hardly_more",),
        ("return scans + _slots(backend) * _groups(backend) * _POINT_NUMBERS * model.points * 4", "return scans"),
    ),
    *_of(
        "placement.py",
        _CELLS,
        ("self._T_home_grid.inverse().turned(*travelled)", "self._T_home_grid.turned(*travelled)"),
        ("self._T_home_grid.inverse().turned(*travelled)", "travelled"),
    ),
    *_of(
        "objects/tracks_cpu.py",
        ("occupancy/test_objects.py",),
        ("if max(math.hypot(ahead, aside), change * since) > gate", "if math.hypot(ahead, aside) > gate"),
        ("if max(math.hypot(ahead, aside), change * since) > gate", "if change * since > gate"),
        ("expected + _NEW_SIDE * (offset - expected)", "offset"),
        ("expected += math.copysign(0.5, away) * (whole - before)", "expected += 0.0"),
    ),
    *_of(
        "objects/hidden_cpu.py",
        ("occupancy/test_hidden.py",),
        ("if inside and observation[row, column] > _UNSEEN:", "if inside:"),
        ("cosine * ahead + sine * aside", "cosine * ahead - sine * aside"),
    ),
    *_of(
        "objects/track_filter_cpu.py",
        ("occupancy/test_objects.py",),
        ("first + j] - lag * covariance", "first + j] + lag * covariance"),
        ("x -= state[first] - lag * state[first + 2]", "x -= state[first]"),
        ("if _is_person(track):", "if False:"),
    ),
]  # fmt: skip
