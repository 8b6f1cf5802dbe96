# SPDX-License-Identifier: Apache-2.0
"""The reference of parameters: all of them, with what the models say, and a reason for each."""

from typing import get_args

from roadbed.config import Config, Stage
from scripts.parameter_reference import entries, markdown


def paths(model, prefix=""):
    """Every parameter of a model; a stage that may be left out has its parameters too."""
    for name, field in model.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        stages = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Stage)]
        if stages:
            yield from paths(stages[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_parameter_is_there_once_with_a_meaning_and_a_reason():
    found = [entry for _, _, own in entries(Config) for entry in own]
    assert sorted(entry.path for entry in found) == sorted(paths(Config))
    for entry in found:
        assert entry.meaning, entry.path
        assert entry.reason, entry.path
    assert [name for name, about, _ in entries(Config) if not about] == []


def test_defaults_bounds_and_units_are_the_models_own():
    found = {entry.path: entry for _, _, own in entries(Config) for entry in own}
    spacing = found["ground.stcrf.spacing"]
    assert (spacing.default, spacing.bounds, spacing.unit) == (Config().ground.stcrf.spacing, "≥ 0.1, ≤ 10", "m")
    assert spacing.meaning == "between nodes"
    assert found["backend"].bounds == "cpu, opencl, cuda, auto"
    assert found["ground.mounting.estimate"].bounds == "true, false"
    assert found["timeline.largest_speed"].unit == "m/s"
    assert found["ground.mounting.pitch"].unit == "degrees"


def test_the_page_has_a_table_per_stage_and_no_broken_row():
    page = markdown(Config)
    assert "| **mounting** | | | |" in page.split("## ground")[1]
    assert "| `mounting.height` |" in page.split("## ground")[1].split("\n## ")[0]
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) == len(list(paths(Config)))
    assert all(line.replace("\\|", "").count("|") == 7 for line in rows)
