# SPDX-License-Identifier: Apache-2.0
"""For pytest: selects the tests that a file describes; writes what each test did and its seconds into another."""

import json
import os
import time
from pathlib import Path

import pytest

SELECTED, TOLD = "ROADBED_SELECTED_TESTS", "ROADBED_TOLD_TESTS"
RUNNING = "running"  # outcome of a test that has begun and not ended
_told: dict[str, tuple[str, float]] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if SELECTED not in os.environ:
        return
    rule = json.loads(Path(os.environ[SELECTED]).read_text())
    named, words, without = tuple(rule["named"]), rule["words"], set(rule["without"])
    kept, left_out = [], []
    for item in items:
        wanted = item.nodeid not in without and is_part(item.nodeid, named)
        wanted = wanted and (not words or any(word in item.nodeid for word in words))
        (kept if wanted else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = sorted(kept, key=lambda item: any(word in item.nodeid for word in rule["last"]))


def is_part(test: str, names: tuple[str, ...]) -> bool:
    """Whether a test is one of these, or lies in a folder, a file or a family of cases of that name."""
    return any(test == name or test.startswith((f"{name}/", f"{name}::", f"{name}[")) for name in names)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Written at once: a process that is stopped or crashes leaves the name of its last test."""
    _told[nodeid] = (RUNNING, time.time())
    _write()
    _told[nodeid] = ("passed", 0.0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    outcome, seconds = _told.get(report.nodeid, ("passed", 0.0))
    _told[report.nodeid] = (outcome if report.passed else report.outcome, seconds + report.duration)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported here, or says that it needs what is not here."""
    if not report.passed:
        _told[report.nodeid] = (report.outcome, 0.0)


def pytest_sessionfinish() -> None:
    _write()


def _write() -> None:
    if TOLD in os.environ:
        Path(os.environ[TOLD]).write_text(json.dumps(_told))
