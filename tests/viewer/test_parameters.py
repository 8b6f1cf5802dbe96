# SPDX-License-Identifier: Apache-2.0
"""Sliders come from the configuration models and stay within their bounds."""

import pytest

from roadbed.config import Config
from roadbed.core.errors import ConfigError
from roadbed.viewer.parameters import FIRST, changed, parameters, value_at

ALL = {p.path: p for config in (Config(), Config.parse({"ground": {"method": "variance"}})) for p in parameters(config)}


def test_every_parameter_shown_first_exists():
    assert set(FIRST) <= set(ALL)


def test_only_the_method_in_use_is_shown():
    assert not any(p.path.startswith("ground.variance") for p in parameters(Config()))


@pytest.mark.parametrize("parameter", ALL.values(), ids=lambda p: p.path)
def test_ends_of_each_range_are_values_the_model_takes(parameter):
    ends = parameter.choices or (parameter.low, parameter.high)
    assert parameter.choices or parameter.low <= parameter.value <= parameter.high
    assert parameter.choices or (parameter.step > 0 and parameter.low < parameter.high)
    for end in map(type(parameter.value), ends):
        problem = ""
        try:
            assert value_at(changed(Config(), parameter.path, end), parameter.path) == end
        except ConfigError as error:
            problem = str(error)
        # A value may be refused together with others, never for itself.
        assert not problem.startswith(f"tuning: {parameter.path} = ")


def test_a_change_that_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match="beta"):
        changed(Config(), "ground.stcrf.beta", 0.95)
