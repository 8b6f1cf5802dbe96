# SPDX-License-Identifier: Apache-2.0
"""Real scans that were asked for and are not there fail; nobody takes a skip for a pass."""

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

ASK = "def test_asks(real_data):\n    pass\n"


@pytest.mark.parametrize(
    ("environment", "beside", "status", "outcome"),
    [
        ({"ROADBED_DATA": "/nowhere"}, (), 1, "real scans are expected at /nowhere"),
        ({"ROADBED_REQUIRE": "all,data"}, (), 1, "real scans are expected at"),
        ({}, ("shared",), 1, "real scans are expected at"),
        ({"ROADBED_REQUIRE": "all"}, (), 0, "no real scans: set ROADBED_DATA"),
        ({"ROADBED_REQUIRE": "all,data"}, ("shared/data",), 0, "1 passed"),
    ],
    ids=["named", "required", "half there", "not asked for", "there"],
)
def test_a_missing_folder(tmp_path, environment, beside, status, outcome):
    """A project of one test, with this one's conftest and what lies beside it."""
    tests = tmp_path / "project" / "tests"
    tests.mkdir(parents=True)
    for name in beside:
        (tmp_path / name).mkdir(parents=True)
    (tests / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tests / "test_asks.py").write_text(ASK)
    own = {name: value for name, value in os.environ.items() if not name.startswith("ROADBED_")}
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(command, cwd=tmp_path, env=own | environment, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout
    assert outcome in done.stdout
