# SPDX-License-Identifier: Apache-2.0
"""The command line: in this process, whose kernels are loaded already, or as a process of its own."""

import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest

from roadbed.cli import main
from roadbed.sources import registry


def roadbed(*arguments, cwd="."):
    """A command in this process; its streams and its exit status."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        patch.setattr(sys, "argv", ["roadbed", *map(str, arguments)])
        patch.chdir(cwd)
        patch.setattr(registry, "_ADDED", {})  # a process of its own has no sources of other tests
        with pytest.raises(SystemExit) as ended:
            main()
    return subprocess.CompletedProcess(arguments, ended.value.code or 0, out.getvalue(), err.getvalue())


def roadbed_process(*arguments, cwd=None):
    """A command as users start it. It imports and loads everything again: for what only a process can show."""
    return subprocess.run(
        [sys.executable, "-m", "roadbed", *map(str, arguments)], capture_output=True, text=True, cwd=cwd, timeout=900
    )


def one_line_and_status_2(out, message):
    assert out.returncode == 2, out.stderr
    assert out.stderr.count("\n") == 1
    assert message in out.stderr
