# SPDX-License-Identifier: Apache-2.0
"""A configuration is complete, survives YAML, and a wrong one is explained in one line."""

from inspect import isclass
from pathlib import Path
from typing import get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from roadbed.config import Config
from roadbed.core.errors import ConfigError

REPORT_YAML = """
pointcloud_limits:
  x_min: -50.0   # meters
  x_max:  50.0   # meters
  y_min:   0.0   # meters
  y_max: 100.0   # meters

grid_resolution: 0.3           # meters per grid cell
min_variance_threshold: 0.05   # Z variance threshold for ground classification
point_number_threshold: 2      # minimum points to consider a grid non-empty
height_threshold:
  ground: 0.30                 # Z difference threshold for point classification (meters)
"""


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_presets_survive_yaml(preset, tmp_path):
    config = Config.preset(preset)
    config.save(tmp_path / "config.yaml")
    assert Config.load(tmp_path / "config.yaml") == config
    assert [p.name for p in tmp_path.iterdir()] == ["config.yaml"]


@given(st.floats(0, 0.99), st.floats(0, 0.99))
def test_only_stable_weights_are_accepted(beta, gamma):
    values = {"ground": {"stcrf": {"beta": beta, "gamma": gamma}}}
    if beta + gamma < 1:
        assert Config.parse(values).ground.stcrf.beta == beta
    else:
        with pytest.raises(ConfigError, match=r"beta \+ gamma = .* expected a sum below 1"):
            Config.parse(values)


def test_the_reports_params_yaml_loads_unchanged_with_its_area(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text(REPORT_YAML)
    ground = Config.load(path).ground
    assert ground.method == "variance"
    limits = ground.variance.pointcloud_limits
    assert (limits.x_min, limits.x_max, limits.y_min, limits.y_max) == (-50, 50, 0, 100)
    assert ground.variance.spacing == 0.3
    assert Config.loads("grid_resolution: 0.3").ground.variance == ground.variance
    assert ground.variance.height_threshold.ground == 0.3


def test_a_preset_can_be_the_base_of_a_file():
    config = Config.loads("preset: paper\nground: {stcrf: {sigma_up: 0.07}}")
    paper = Config.preset("paper").ground.stcrf
    assert config.ground.stcrf == paper.with_changes(sigma_up=0.07)


def test_changes_are_merged_at_every_depth_from_python_and_from_yaml():
    changes = {"ground": {"labels": {"highest": 0.7}}, "occupancy": {"filter": {"moving": {"speed": 0.3}}}}
    paper = Config.preset("paper")
    changed = paper.with_changes(**changes)
    assert changed.ground.labels.threshold == paper.ground.labels.threshold == 0.2
    assert changed.occupancy.filter.birth_speed == paper.occupancy.filter.birth_speed == 20.0
    assert changed == Config.loads("preset: paper\n" + yaml.safe_dump(changes))
    labels = paper.ground.labels.with_changes(highest=0.7)
    assert paper.with_changes(ground={"labels": labels}) == paper.with_changes(ground={"labels": {"highest": 0.7}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ground: {stcrf: {betta: 1}}", r"unknown parameter ground\.stcrf\.betta, did you mean beta\?"),
        ("grund: {}", r"unknown parameter grund, did you mean ground\?"),
        ("ground: {stcrf: {beta: high}}", r"ground\.stcrf\.beta = 'high': .*number"),
        ("ground: {stcrf: {sigma_up: -1}}", r"sigma_up = -1: .*greater than 0"),
        ("ground: {stcrf: {sigma_up: .nan}}", r"sigma_up = nan: .*finite"),
        ("ground: 3", r"ground = 3: .*dictionary"),
        ("- a\n- b", "expected a mapping of parameters, found list"),
        ("a: [", r"not valid YAML: while parsing a flow node[a-z ]* in line \d, column \d"),
        ("!!python/object/apply:os.system ['true']", "not valid YAML"),
        ("preset: fast", "expected one of default, paper"),
        ("grid_resolution: fine", r"grid_resolution = 'fine'"),
        ("pointcloud_limits: {x_min: 5, x_max: 1}", "x_min = 5 must be below x_max = 1"),
        ("pointcloud_limits: {y_min: 3, y_max: 3}", "y_min = 3 must be below y_max = 3"),
        ("ground: {stcrf: {beta: 0.8, gamma: 0.2}}", r"beta \+ gamma = 1: information would grow without bound"),
        ("ground: {stcrf: {spacing: 5, pillar: 0.04}}", "pillar = 0.04: expected at least a hundredth of spacing = 5"),
        ("ground: {labels: {threshold: 0.5}}", "heights must not decrease .*threshold 0.5, clear_threshold 0.4"),
        ("occupancy: {without: [regstration]}", r"occupancy\.without\.0 = 'regstration': .*'registration'"),
        ("grid_resolution: 0.2\nground: {}", r"unknown parameter ground"),
    ],
)
def test_wrong_values_are_named_in_one_line(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Config.loads(text, "my.yaml")
    assert str(caught.value).startswith("my.yaml: ") or "preset" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="no such configuration file"):
        Config.load(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ConfigError, match="expected a readable YAML"):
        Config.load(Path(tmp_path / "binary.yaml"))


def test_the_number_of_fields_stays_small():
    """What nobody should set is a named constant in the code, not a field."""

    def fields(model):
        for info in model.model_fields.values():
            inner = [part for part in (info.annotation, *get_args(info.annotation)) if isclass(part)]
            stages = [part for part in inner if issubclass(part, BaseModel)]
            yield from (name for stage in stages for name in fields(stage)) if stages else (info,)

    assert len(list(fields(Config))) <= 140
