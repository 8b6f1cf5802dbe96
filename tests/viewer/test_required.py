# SPDX-License-Identifier: Apache-2.0
"""A run that promised every part does not pass over a viewer that is not installed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

# None in sys.modules is how Python itself says that a module cannot be imported.
WITHOUT_VISER = "import sys, pytest; sys.modules['viser'] = None; sys.exit(pytest.main(sys.argv[1:]))"


@pytest.mark.parametrize(("required", "status", "outcome"), [("all", 1, "error"), ("", 0, "skipped")])
@pytest.mark.parametrize("file", ["test_app.py", "test_browser.py", "test_guard.py"])
def test_a_missing_viser_fails_where_every_part_was_promised(file, required, status, outcome):
    command = [sys.executable, "-c", WITHOUT_VISER, "-p", "no:cacheprovider", "-x", f"tests/viewer/{file}"]
    environment = {**os.environ, "ROADBED_REQUIRE": required}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == status, ended.stdout
    assert outcome in ended.stdout.splitlines()[-1]
    assert "passed" not in ended.stdout.splitlines()[-1]
