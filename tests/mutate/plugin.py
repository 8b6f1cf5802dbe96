# SPDX-License-Identifier: Apache-2.0
"""For pytest: the tests that a file names, in its order; what each did and its seconds go into another."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

CHOSEN, TOLD = "ROADBED_CHOSEN_TESTS", "ROADBED_TOLD_TESTS"
_told: dict[str, tuple[str, float]] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if CHOSEN not in os.environ:
        return
    places = {name: place for place, name in enumerate(json.loads(Path(os.environ[CHOSEN]).read_text()))}
    left_out = [item for item in items if item.nodeid not in places]
    config.hook.pytest_deselected(items=left_out)
    items[:] = sorted((item for item in items if item.nodeid in places), key=lambda item: places[item.nodeid])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    outcome, seconds = _told.get(report.nodeid, ("passed", 0.0))
    _told[report.nodeid] = (outcome if report.passed else report.outcome, seconds + report.duration)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported here, or says that it needs what is not here."""
    if not report.passed:
        _told[report.nodeid] = (report.outcome, 0.0)


def pytest_sessionfinish() -> None:
    if TOLD in os.environ:
        Path(os.environ[TOLD]).write_text(json.dumps(_told))
