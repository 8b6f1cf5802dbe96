# SPDX-License-Identifier: Apache-2.0
"""An explanation says what the filter computed: switching off a rule that it names gives the label that it names."""

import numpy as np
import pytest

import roadbed
from roadbed import Config, GroundFilter, Label, Pose, Scan
from roadbed.core.errors import InputError
from roadbed.ground.explanation import LABEL_RULES, explain


def without(config, *rules):
    return config.with_changes(ground={"without": sorted({*config.ground.without, *rules})})


def test_the_named_rules_decide():
    """For points that a rule changes, and for some others, against filters that run without the rule; the scenes show
    most rules."""
    sources = "sim:city?sensor=hdl64e&frames=2", "sim:offroad?sensor=vlp16&frames=2"
    seen = set.union(*map(rules_that_decide, sources))
    assert len(seen) >= 5, seen


def rules_that_decide(source):
    """The rules that an explanation of a point of this scene names, each checked."""
    seen = set()
    scan = roadbed.open(source)[0]
    ground = GroundFilter()
    frame = ground(scan)
    others = {rule: GroundFilter(without(ground.config, rule))(scan).label for rule in LABEL_RULES}
    bare = GroundFilter(without(ground.config, *LABEL_RULES))(scan).label
    chosen = {0: 0, **{int(i): 1 for i in np.linspace(0, len(scan) - 1, 12)}}
    for label in others.values():
        chosen |= dict.fromkeys(np.flatnonzero(label != frame.label)[:3].tolist())
    for index in chosen:
        found = explain(ground, frame, index)
        assert found.label == frame.label[index]
        if found.label == Label.UNKNOWN or "visibility" in found.rule:
            continue
        assert found.without == {rule: label[index] for rule, label in others.items() if label[index] != found.label}
        if found.without:
            assert found.rule == ", ".join(found.without)
            seen.update(found.without)
        elif found.rule == "height":
            assert bare[index] == found.label
        else:
            assert bare[index] != found.label
        assert found.values["height_above_ground_m"] == frame.height_above_ground[index]
    again = GroundFilter()
    again(scan)
    assert np.array_equal(ground(scan).label, again(scan).label)  # explaining leaves the filter as it was
    return seen


def test_values_of_the_node_and_pillar():
    """A post on a level road: what is in its pillar is counted, and the surface below is known well."""
    rng = np.random.default_rng(1)
    road = np.column_stack([rng.uniform(-20, 20, (20000, 2)), rng.normal(-1.7, 0.005, 20000)])
    post = np.column_stack([np.full((40, 2), 5.05), np.linspace(-1.69, -0.2, 40)])
    points = np.vstack([road, post]).astype(np.float32)
    scan = Scan(points, T_vehicle_sensor=Pose.from_euler(z=1.7))
    ground = GroundFilter()
    frame = ground(scan)
    middle = len(road) + 20
    found = explain(ground, frame, middle)
    assert found.label == Label.OBSTACLE
    assert found.values["height_above_ground_m"] == pytest.approx(points[middle, 2] + 1.7, abs=0.03)
    heights = frame.height_above_ground[len(road) :]
    for name, n in found.values["pillar_returns_by_height_m"].items():
        low, high = map(float, name.split("-"))
        assert n == pytest.approx(np.count_nonzero((heights >= low) & (heights < high)), abs=2)
    assert found.values["surface_sigma_m"] < 0.05
    foot = explain(ground, frame, len(road) + 4)
    assert foot.label == Label.OBSTACLE
    assert "pillars" in foot.rule


def test_points_without_a_label_say_why():
    points = np.random.default_rng(2).uniform(-20, 20, (3000, 3)).astype(np.float32)
    points[:, 2] = -1.7
    points[0], points[1], points[2] = np.nan, 0, (500, 0, -1.7)
    ground = GroundFilter(Config.parse({"ground": {"mounting": {"height": 1.7}}}))
    frame = ground(points)
    rules = [explain(ground, frame, index).rule for index in range(3)]
    assert rules == ["missing return: not finite, or zero"] * 2 + ["outside the grid"]
    with pytest.raises(InputError, match="found point 3000, expected 0 to 2999"):
        explain(ground, frame, 3000)


def test_a_frame_of_another_scan_is_refused():
    scans = roadbed.open("sim:city?sensor=vlp16&frames=2")
    ground = GroundFilter()
    frame = ground(scans[0])
    index = int(np.flatnonzero(frame.is_ground)[0])
    ground(scans[1])
    with pytest.raises(InputError, match="expected the last one of this filter"):
        explain(ground, frame, index)


def test_grid_variance_explains_by_its_cells():
    scan = roadbed.open("sim:city?sensor=vlp16&frames=2")[0]
    ground = GroundFilter(Config.parse({"ground": {"method": "variance"}}))
    frame = ground(scan)
    limit = ground.config.ground.variance.min_variance_threshold
    for index in np.flatnonzero(frame.label != Label.UNKNOWN)[::1500].tolist():
        found = explain(ground, frame, index)
        if found.rule.startswith("variance of the cell"):
            assert (found.values["cell_variance_m2"] < limit) == ("not below" not in found.rule)
        assert (found.label == Label.GROUND) == found.rule.endswith(
            ", point within height_threshold.ground of its mean"
        )
