# SPDX-License-Identifier: Apache-2.0
"""The documentation: pages are wrapped and name no commit, and the notebook leads to what holds today."""

import re

import pytest

from tests.conftest import ROOT

LONGEST = 140
COMMIT = re.compile(r"(?<![\w.-])(?=\w*[a-f])(?=\w*\d)[0-9a-f]{7}(?![\w.-])")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
NOTEBOOK = sorted((ROOT / "docs" / "notebook").glob("*.md"))


def prose(text):
    """Lines that can be wrapped: not those of tables and of code."""
    without_code = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    return [line for line in without_code.splitlines() if not line.startswith(("|", "    "))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_wrapped_and_name_no_commit(page):
    text = page.read_text()
    assert not [line for line in prose(text) if len(line) > LONGEST]
    assert not COMMIT.findall(text)


@pytest.mark.parametrize("page", [page for page in NOTEBOOK if page.name != "index.md"], ids=lambda page: page.name)
def test_a_page_of_the_notebook_is_listed_and_leads_to_what_holds_today(page):
    opening = page.read_text().split("\n## ")[0]
    assert re.search(r"\]\(\.\./\w[\w-]*\.md", opening)
    assert f"]({page.name})" in (ROOT / "docs" / "notebook" / "index.md").read_text()
    assert f"notebook/{page.name}" in (ROOT / "mkdocs.yml").read_text()
