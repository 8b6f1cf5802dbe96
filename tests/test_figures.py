# SPDX-License-Identifier: Apache-2.0
"""`make figures`: numbers are found in texts and outputs, small differences are seen, and every line named is there."""

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


def test_every_check_finds_its_line_and_names_each_of_its_numbers():
    lost = []
    for figure in figures.load():
        found = [line for line in (ROOT / figure.document).read_text().splitlines() if figure.line in line]
        ends = [line.index(figure.line) + len(figure.line) for line in found]
        counts = [len(list(figures.numbers_in(line, end))) for line, end in zip(found, ends)]
        if counts != [len(figure.places)]:
            lost.append((figure.document, figure.line, counts, len(figure.places)))
    assert not lost


def test_every_number_of_the_documents_has_a_check_or_a_reason(capsys):
    assert figures.print_coverage(list(figures.load())) == 0, capsys.readouterr().out


def test_numbers_of_names_code_links_and_dates_are_not_counted():
    line = "| HDL-64E, 3x3, 99th, 2026-11-17, `--frames 40`, [a](b.md#2-c) | 1,234 | - | 5.0 |"
    assert [match.group() for match in figures.numbers_in(line)] == ["1,234", "-", "5.0"]


def test_a_number_without_a_check_or_reason_is_counted(page, monkeypatch, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# A\n\nIt takes 5 ms.\n\n## B\n\n7 points\n\n```\n8\n```\n")
    table = tmp_path / "figures.yaml"
    table.write_text("checks: []\nreasons: [{document: README.md, section: B, reason: an example}]\n")
    monkeypatch.setattr(figures, "TABLE", table)
    assert figures.print_coverage([]) == 1
    check = figures.Figure("README.md", "It takes", ("ms",), "command", (), 1.0)
    assert figures.print_coverage([check]) == 0


@pytest.mark.parametrize(
    ("text", "same"), [("| share | 98.8 | 3 |", False), ("| share | - |", False), ("| share | 98.8 | - |", False)]
)
def test_each_number_of_a_line_must_have_its_place(page, text, same):
    page(text)
    figure = figures.Figure("page.md", "| share |", ("share * 100",), "command", (), 1.0)
    assert all(one for _, _, one in figures.compare(figure, OUTPUT)) is same


def test_a_dash_says_that_there_is_no_value(page):
    page("| share | - |")
    figure = figures.Figure("page.md", "| share |", ("nothing",), "command", (), 1.0)
    assert [one for _, _, one in figures.compare(figure, OUTPUT)] == [True]


def test_no_selected_check_is_a_failure(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["figures.py", "--match", "no such command"])
    assert figures.main() == 1
    assert "no check matches" in capsys.readouterr().out
