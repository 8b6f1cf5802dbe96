# SPDX-License-Identifier: Apache-2.0
"""Leave-one-out of the ground rules: what is measured, what counts, and what the table says."""

import numpy as np
import pytest

from benchmarks.leave_one_out_ground import RULES, Study, changes, markdown, verdict


def test_every_rule_names_a_valid_configuration():
    from roadbed import Config

    for rule, change in RULES.items():
        assert Config().with_changes(ground=change) != Config(), rule


def test_removing_the_coarse_start_is_measured_on_a_hillside_scene():
    study = Study(["coarse_start"], ["mountain lux4"], [5], 1, None)
    records = list(study.records())
    assert [(r["rule"], r["set"], r["unit"]) for r in records] == [
        ("", "mountain lux4", 5),
        ("coarse_start", "mountain lux4", 5),
    ]
    assert records[0]["f1"] > records[1]["f1"] + 0.5
    known = {(r["rule"], r["set"], r["unit"]) for r in records}
    assert list(study.records(known)) == []


def record(rule, seed, f1):
    return {"rule": rule, "set": "s", "unit": seed, "f1": f1}


@pytest.mark.parametrize(
    ("losses", "word"),
    [
        ((-1.0, -1.1, -0.9), "keep"),
        ((1.0, 1.1, 0.9), "harmful"),
        ((-3.0, 3.0, 0.5), "delete"),
        ((0.01, 0.01, 0.01), "delete"),
    ],
)
def test_a_change_counts_beyond_its_spread_over_seeds(losses, word):
    records = [record("", seed, 90.0) for seed in range(3)]
    records += [record("vote", seed, 90.0 + loss) for seed, loss in enumerate(losses)]
    found = changes(records)
    mean, spread = found["vote"]["s", "f1"]
    assert mean == pytest.approx(np.mean(losses))
    assert spread == pytest.approx(np.std(losses, ddof=1))
    assert verdict(found["vote"])[0] == word
    assert f"| vote | {mean:+.2f}±{spread:.2f} | {word} |" in markdown(found)
