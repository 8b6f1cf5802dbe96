# SPDX-License-Identifier: Apache-2.0
"""A killed process leaves whole files behind, and the next one clears up after it."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_ten_kills_leave_nothing_corrupt():
    command = [sys.executable, "-m", "tests.mapping.crash", "--kills", "10"]
    child = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    for found in json.loads(child.stdout).values():
        assert found["kills"] == 10
        assert found["corrupt"] == 0
        assert found["left_in_the_end"] == 0
