# SPDX-License-Identifier: Apache-2.0
"""YAML text from anywhere: plain values come back, everything else is one line in bounded time."""

import os

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from roadbed.config import Config
from roadbed.config.text import parse_yaml
from roadbed.core.errors import ConfigError
from roadbed.simulate.sensors import SENSORS, load_rig
from tests.resident import measured

# YAML folds line breaks of every kind, so they do not come back as they were.
words = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=20)
plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words
trees = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=20,
)


@given(trees)
def test_what_yaml_writes_comes_back(tree):
    text = yaml.safe_dump(tree)
    assert parse_yaml(text, "test") == tree


def nested(opening: str, closing: str = "", depth: int = 100_000) -> str:
    return opening * depth + closing * depth


ALIAS_BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefgh", "bcdefghi")
)
MERGE_BOMB = "a: &a {k: 1}\n" + "\n".join(
    f"{new}: &{new} {{<<: [{','.join([f'*{old}'] * 9)}]}}" for old, new in zip("abcdefgh", "bcdefghi")
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (nested("[", "]"), "nested more than"),
        (nested("["), "nested more than"),
        (nested("{a: "), "nested more than"),
        (nested("- "), "nested more than"),
        ("backend: " + nested("!!seq [", "]", 1000), "tag"),
        (ALIAS_BOMB, "more than"),
        (ALIAS_BOMB.replace("i: ", "ground: "), "more than"),
        (MERGE_BOMB, "."),
        ("a: &a [*a]", "not valid YAML|alias"),
        ("preset: [1]", "expected one of default, paper"),
        ("preset: {a: b}", "expected one of default, paper"),
        ("preset: 2011-09-26", "expected one of default, paper"),
        ("seed: 2011-09-26", "seed = '2011-09-26'"),
        ("2011-09-26: 1", "unknown parameter 2011-09-26"),
        ("seed: 2011-99-99", "seed = '2011-99-99'"),
        ("seed: " + "9" * 5000, "5000 characters"),
        ("seed: 0x" + "f" * 100_000, "characters"),
        ("seed: " + "1:" * 20_000 + "1", "characters"),
        ('seed: !!int ""', "tag"),
        ('seed: !!timestamp "x"', "tag"),
        ("seed: !!float nix", "tag"),
        ("? [a]\n: 1", "expected a name"),
        ("seed: 1\nseed: 2", "seed.* twice"),
        ("seed: 1\n---\nseed: 2", "one document"),
        ("seed: \ud800", "not valid YAML"),
        ("seed: \x00", "not valid YAML"),
        ("a: " + "x" * 2_000_000, "expected at most"),
        ("%YAML 9.9\n---\na: 1", "not valid YAML"),
    ],
    ids=range(28),
)
def test_hostile_text_is_one_line_in_bounded_time(text, message):
    with measured(hang_guard_s=600) as peak, pytest.raises(ConfigError, match=message) as caught:
        Config.loads(text, "my.yaml")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert peak.bytes < 256 << 20


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"key{k}: 1" for k in range(40_000)),
        "seed: " + "x" * 900_000,
        "seed: [" + ",".join(["1"] * 90_000) + "]",
        "preset: " + "x" * 900_000,
    ],
    ids=["keys", "value", "list", "preset"],
)
def test_what_is_quoted_is_cut(text):
    with measured(), pytest.raises(ConfigError) as caught:
        Config.loads(text)
    assert len(str(caught.value)) < 2100


def test_a_few_aliases_are_fine():
    assert parse_yaml("a: &a [1, 2]\nb: *a\nc: {d: *a}", "test") == {"a": [1, 2], "b": [1, 2], "c": {"d": [1, 2]}}


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero"])
def test_only_regular_files_are_read(tmp_path, kind):
    path = tmp_path / "pipe.yaml" if kind == "fifo" else kind
    if kind == "fifo":
        os.mkfifo(path)
    with measured(), pytest.raises(ConfigError, match="expected a regular file"):
        Config.load(path)


def test_sensor_files_are_read_the_same_way(tmp_path):
    path = tmp_path / "rig.yaml"
    rig = SENSORS["vlp16"]()
    path.write_text(yaml.safe_dump(rig.model_dump(mode="json")))
    assert load_rig(str(path)) == rig
    for text in (ALIAS_BOMB, nested("[", "]"), "sensors: !!int x", '{"sensors": "\ud800"}'):
        path.write_text(text, errors="surrogatepass")
        with measured(hang_guard_s=600), pytest.raises(ConfigError, match=r"rig\.yaml: "):
            load_rig(str(path))
    path.unlink()
    os.mkfifo(path)
    with measured(), pytest.raises(ConfigError, match="expected a regular file"):
        load_rig(str(path))
