# SPDX-License-Identifier: Apache-2.0
"""`make figures`: numbers are found in texts and outputs, small differences are seen, and every line named is there."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from tests.conftest import ROOT

spec = importlib.util.spec_from_file_location("figures", ROOT / "scripts" / "figures.py")
figures = importlib.util.module_from_spec(spec)
sys.modules["figures"] = figures
spec.loader.exec_module(figures)

OUTPUT = {"rows": [{"case": "a b", "ms": 1.5}, {"case": "c", "ms": 12.34}], "share": 0.9876, "nothing": None}


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("rows[case=c].ms", 12.34),
        ("rows[0].ms", 1.5),
        ("share * 100", 98.76),
        ("rows[case=x].ms", None),
        ("nothing", None),
    ],
)
def test_places_in_json(place, value):
    assert figures.value_at(OUTPUT, place) == (value if value is None else pytest.approx(value))


def test_places_in_plain_output():
    assert figures.value_at("x | 1 |\n| default | 99.5 | 1,234 |", "| default | # 2") == 1234
    assert figures.value_at("x", "| default | # 2") is None


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "ROOT", tmp_path)

    def write(text):
        (tmp_path / "page.md").write_text(text)

    return write


@pytest.mark.parametrize(
    ("text", "factor", "same"),
    [
        ("| share | 98.8 % |", 1, [True]),
        ("| share | 98.7 % |", 1, [False]),
        ("| share | 99 |", 1, [True]),
        ("| share | 80 |", 1.3, [True]),
        ("| share | 70 |", 1.3, [False]),
        ("| share | none |", 1, [False]),
        ("nothing here", 1, [False]),
        ("| share | 98.8 |\n| share | 98.8 |", 1, [False]),
    ],
)
def test_texts_are_held_against_outputs(page, text, factor, same):
    page(text)
    figure = figures.Figure("page.md", "| share |", ("share * 100",), "command", (), factor)
    assert [one for _, _, one in figures.compare(figure, OUTPUT)] == same


def test_hardly_any_line_of_the_table_has_lost_its_document():
    """`make figures` fails on each that has; a tenth of them is the time to look after the table."""
    lost = []
    for figure in figures.load():
        text = (ROOT / figure.document).read_text()
        found = [line for line in text.splitlines() if figure.line in line]
        numbers = figures.NUMBER.findall(found[0].split(figure.line, 1)[1]) if len(found) == 1 else []
        if len(numbers) < len(figure.places):
            lost.append(figure.line)
    assert len(lost) <= sum(1 for _ in figures.load()) // 10, lost
