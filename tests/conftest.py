# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures, and the rule that a missing real part skips with a reason or, under ROADBED_REQUIRE=all, fails."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# No deadlines: the first example may compile. CI draws the same examples each time, people draw new ones.
settings.register_profile("roadbed", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("roadbed")

ROOT = Path(__file__).parent.parent


def require(present: bool, reason: str) -> None:
    """Skip when a real part is missing; fail when the run promised to have every part."""
    if present:
        return
    if os.environ.get("ROADBED_REQUIRE") == "all":
        pytest.fail(f"ROADBED_REQUIRE=all, but {reason}")
    pytest.skip(reason)


def take_interrupts() -> None:
    """For a child that is to be interrupted: a run in the background ignores SIGINT, and hands that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def data_folder() -> Path | None:
    """Real scans: the folder named by ROADBED_DATA, else ../shared/data beside the project."""
    named = os.environ.get("ROADBED_DATA")
    for folder in ([Path(named)] if named else []) + [ROOT.parent / "shared" / "data"]:
        if folder.is_dir():
            return folder
    return None


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real scans. It is not part of the project, so its absence is a skip everywhere."""
    folder = data_folder()
    if folder is None:
        pytest.skip("no real scans: set ROADBED_DATA to a folder laid out as docs/data.md says")
    return folder


@pytest.fixture(scope="session")
def moving_result():
    """The whole chain over a simulated drive of a small sensor, until something moves."""
    from roadbed import Pipeline
    from roadbed.sources import open_source

    result = None
    pipeline = Pipeline()
    for scan in open_source("sim:city?sensor=vlp16&frames=12"):
        result = pipeline(scan)
    assert result.occupancy.moving.any()
    return result
