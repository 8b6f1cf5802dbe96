# SPDX-License-Identifier: Apache-2.0
"""The command line as a real process."""

from __future__ import annotations

import subprocess
import sys


def roadbed(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "roadbed", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=900
    )


def one_line_and_status_2(out, message):
    assert out.returncode == 2, out.stderr
    assert out.stderr.count("\n") == 1
    assert message in out.stderr
