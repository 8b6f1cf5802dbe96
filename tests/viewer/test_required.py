# SPDX-License-Identifier: Apache-2.0
"""A run that promised every part does not pass over a viewer that is not installed."""

import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

# None in sys.modules is how Python itself says that a module cannot be imported.
WITHOUT_VISER = "import sys, pytest; sys.modules['viser'] = None; sys.exit(pytest.main(sys.argv[1:]))"


@pytest.mark.parametrize(("required", "status", "outcome"), [("all", 1, "ERROR"), ("", 0, "SKIPPED")])
def test_a_missing_viser_fails_where_every_part_was_promised(required, status, outcome):
    files = [f"tests/viewer/{name}" for name in ("test_app.py", "test_browser.py", "test_guard.py")]
    command = [sys.executable, "-c", WITHOUT_VISER, "-p", "no:cacheprovider", "-vv", "--tb=no", *files]
    environment = {**os.environ, "ROADBED_REQUIRE": required}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == status, ended.stdout
    outcomes = re.findall(r"^(\S+?)::.* ([A-Z]+) +\[", ended.stdout, re.MULTILINE)
    assert set(outcomes) == {(file, outcome) for file in files}
