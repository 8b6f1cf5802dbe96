# SPDX-License-Identifier: Apache-2.0
"""Each label rule on a tiny scene of its own, on every engine: with the rule one label, without it another."""

from typing import get_args

import numpy as np
import pytest

from roadbed import Config, Label
from roadbed.config.ground import GroundRule
from roadbed.ground.stcrf.programs import coarse_program, fine_program
from roadbed.ground.stcrf.rules import LabelRules
from tests.devices import DRIVERS
from tests.ground import engines

pytestmark = pytest.mark.long(27)

SIZE = 40  # m
RULES = (
    "smooth", "pillars", "pillars_around", "foot_by_ratio", "foot_by_support", "clear", "banks", "steep_banks",
    "open_ground", "vote",
)  # fmt: skip


def ground_points(step=0.2, until=SIZE / 2):
    """A flat road with one return per pillar, for x below `until`."""
    along = np.arange(-SIZE / 2 + step / 2, SIZE / 2, step)
    x, y = np.meshgrid(along, along)
    flat = np.column_stack([x.ravel(), y.ravel(), np.zeros(x.size)])
    return flat[flat[:, 0] < until]


def column(x, y, heights):
    return np.column_stack([np.full(len(heights), x), np.full(len(heights), y), heights])


def labels_of(name, points, asked, *rules):
    """Labels of the `asked` points, with these rules alone switched on."""
    without = [rule for rule in RULES if rule not in rules]
    config = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE}, "without": without})
    everything = np.concatenate([points, asked])
    output = engines.engine(name, config).frame(engines.given(config, everything))
    return output.label[len(points) :].tolist()


def wall(x, y=0.0):
    """Returns of a connected structure in the pillars around y, from above the threshold up."""
    heights = np.arange(0.3, 1.3, 0.05)
    return np.concatenate([column(x, y + k * 0.2, heights) for k in range(-10, 11)])


def scene_smooth():
    """A flat box of 18 cm on a smooth road."""
    x, y = (a.ravel() for a in np.meshgrid(np.arange(7.05, 7.5, 0.1), np.arange(2.05, 2.5, 0.1)))
    return ground_points(), np.column_stack([x, y, np.full(x.size, 0.18)])


def scene_pillars():
    """15 cm over the road in the very pillar where a wall rises."""
    return np.concatenate([ground_points(), wall(8.1)]), column(8.1, 0.0, [0.15])


def scene_pillars_around():
    """The same beside that pillar."""
    return np.concatenate([ground_points(), wall(8.1)]), column(8.3, 0.0, [0.15])


def scene_foot_by_ratio():
    """The lowest return of a wall that stands where hardly any ground was seen."""
    return np.concatenate([ground_points(until=6), wall(8.1)]), column(8.1, 0.0, [0.03])


def scene_foot_by_support():
    """The same beside the wall, in an even region."""
    return np.concatenate([ground_points(until=6), wall(8.1)]), column(8.3, 0.0, [0.03])


def scene_clear():
    """Grass of 35 cm with nothing above it."""
    return ground_points(), column(8.1, 2.1, [0.35])


def scene_banks():
    """The same with returns a little higher beside it."""
    return np.concatenate([ground_points(), column(8.1, 2.1, [0.5])]), column(8.1, 2.1, [0.35])


def scene_steep_banks():
    """Many returns of half a metre on an unbroken slope over firm ground."""
    face = np.concatenate([column(8.1 + 0.02 * k, 2.1, [0.3, 0.5]) for k in range(8)])
    return np.concatenate([ground_points(), face]), column(8.1, 2.1, [0.5])


def scene_open_ground():
    """Half a metre of grass where everything is uneven and no wall stands."""
    flat = ground_points()
    tufts = flat[::7].copy()
    tufts[:, 2] = np.random.default_rng(0).uniform(0.1, 0.22, len(tufts))
    return np.concatenate([flat, tufts]), column(8.1, 2.1, [0.5])


def scene_vote():
    """One blade with a return above it among many that have none."""
    blades = np.concatenate([column(8.1 + 0.4 * i, 2.1 + 0.4 * j, [0.35]) for i in (-1, 0, 1) for j in (-1, 0, 1)])
    return np.concatenate([ground_points(), blades, column(8.1, 2.1, [0.47])]), column(8.12, 2.12, [0.35])


# Per rule: the scene, the rules it builds upon, and the label with and without it.
SCENES = {
    "smooth": (scene_smooth, (), Label.OBSTACLE, Label.GROUND),
    "pillars": (scene_pillars, (), Label.OBSTACLE, Label.GROUND),
    "pillars_around": (scene_pillars_around, ("pillars",), Label.OBSTACLE, Label.GROUND),
    "foot_by_ratio": (scene_foot_by_ratio, (), Label.OBSTACLE, Label.GROUND),
    "foot_by_support": (scene_foot_by_support, ("foot_by_ratio",), Label.OBSTACLE, Label.GROUND),
    "clear": (scene_clear, (), Label.GROUND, Label.OBSTACLE),
    "banks": (scene_banks, ("clear",), Label.GROUND, Label.OBSTACLE),
    "steep_banks": (scene_steep_banks, ("clear",), Label.GROUND, Label.OBSTACLE),
    "open_ground": (scene_open_ground, ("clear",), Label.GROUND, Label.OBSTACLE),
    "vote": (scene_vote, ("clear",), Label.GROUND, Label.OBSTACLE),
}


def test_every_rule_has_a_scene():
    assert set(LabelRules._fields) & set(get_args(GroundRule)) | {"clear"} == set(RULES) == set(SCENES)


def test_a_program_has_the_definitions_it_uses_alone():
    """Another rule for labels builds the kernels of labels again, not those of the coarse start."""
    configs = [Config().with_changes(ground={"without": without}) for without in ([], ["vote"])]
    fine, coarse = ({program(config).source({}) for config in configs} for program in (fine_program, coarse_program))
    assert (len(fine), len(coarse)) == (2, 1)


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize("rule", RULES)
def test_the_rule_decides(rule, name):
    scene, others, with_it, without_it = SCENES[rule]
    points, asked = scene()
    assert labels_of(name, points, asked, *others, rule) == [with_it] * len(asked)
    assert labels_of(name, points, asked, *others) == [without_it] * len(asked)


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize("rules", [(), ("pillars",)], ids=["own height", "looking around"])
def test_one_point_per_label(name, rules):
    """From the height over the surface alone: low outlier, ground, obstacle, overhang, and unknown outside."""
    heights = [-1.5, -0.9, 0.0, 0.2, 0.4, 2.4, 2.6, 8.0]
    asked = np.concatenate([*(column(8.1 + 0.7 * k, 2.1, [h]) for k, h in enumerate(heights)), [[500.0, 0.0, 0.0]]])
    expected = [
        Label.LOW_OUTLIER, Label.GROUND, Label.GROUND, Label.GROUND, Label.OBSTACLE, Label.OBSTACLE, Label.OVERHANG,
        Label.OVERHANG, Label.UNKNOWN,
    ]  # fmt: skip
    assert labels_of(name, ground_points(), asked, *rules) == expected


@pytest.mark.parametrize("name", DRIVERS)
def test_noise_below_the_foot_of_a_wall_is_noise(name):
    """At feet every point is asked about, also what lies far below the surface."""
    points, _ = scene_foot_by_ratio()
    asked = column(8.7, 0.0, [-3.0])  # too far below to pull the surface down, and no return stands over it
    assert labels_of(name, points, asked, "foot_by_ratio") == [Label.LOW_OUTLIER]


@pytest.mark.parametrize("name", DRIVERS)
def test_the_clearance_is_the_vehicles(name):
    config = Config().with_changes(vehicle={"clearance": 3.5}, ground={"stcrf": {"length": SIZE, "width": SIZE}})
    points = np.concatenate([ground_points(), column(8.1, 2.1, [3.0, 4.0])])
    label = engines.engine(name, config).frame(engines.given(config, points)).label
    assert label[-2:].tolist() == [Label.OBSTACLE, Label.OVERHANG]


@pytest.mark.parametrize("name", DRIVERS)
def test_a_point_on_the_surface_is_ground_with_certainty(name):
    """The probability is 1 and not more; the CPU computes it by a series that exceeds 1 there."""
    config = Config().with_changes(ground={"stcrf": {"length": SIZE, "width": SIZE}})
    points = ground_points()
    points[:, 2] = 0.5
    output = engines.engine(name, config).frame(engines.given(config, points))
    assert (output.height_above_ground == 0).any()
    assert output.ground_probability.max() == 1


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize(("height", "label"), [(1.3, Label.GROUND), (1.2999, Label.OBSTACLE)])
def test_returns_from_the_top_of_structures_upwards_are_none(name, height, label):
    """On flat ground at 0 a point has its own height exactly, also one at the limit."""
    points = np.concatenate([ground_points(), column(8.1, 2.1, [height])])
    assert labels_of(name, points, column(8.1, 2.1, [0.35]), "clear") == [label]
