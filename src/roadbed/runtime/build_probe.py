# SPDX-License-Identifier: Apache-2.0
"""Builds an OpenCL program in a child process first, because some drivers' compilers crash or never end.

The outcome is cached by driver, driver version, compiler options and program text: a program that was built once costs
one file read. The child is this module, run with `python -m`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Any, cast

from roadbed.runtime import program_cache
from roadbed.runtime.device import Device

TIME_LIMIT = 180.0  # s per program; the largest takes 20 s on two cores with PoCL
_SURVIVED, _NOT_PROBED = 0, 3  # exit statuses of the child; drivers' compilers abort, or exit with 1


def crash_of(device: Device, files: tuple[str, ...], text: str, options: list[str]) -> str | None:
    """One line if the driver's compiler crashes on this program, else None. A refused program is not a crash."""
    outcome = program_cache.file("opencl-probes", (device.driver, device.name, *options, text), ".txt")
    with suppress(OSError):
        return outcome.read_text(encoding="utf-8") or None
    if not sys.executable:  # Python is embedded in another program: there is no interpreter to start
        return None
    end = _end_of_child({"index": device.index, "name": device.name, "options": options, "text": text})
    crash = None
    if end is not None:
        crash = (
            f"{device.driver} ({device.name}) cannot compile {', '.join(files)}: {end}; use backend='cpu', another "
            f"device or another version of this driver (remove {outcome} to try again)"
        )
    program_cache.write(outcome, (crash or "").encode())
    return crash


def _end_of_child(request: dict[str, Any]) -> str | None:
    """How the child failed to build the program; None if it did not."""
    with tempfile.TemporaryDirectory(prefix="roadbed-probe-") as folder, tempfile.TemporaryFile() as output:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "POCL_CACHE_DIR": folder,  # PoCL would prefer what is built here over kernels for fixed group sizes
        }
        child = subprocess.Popen(
            [sys.executable, "-m", "roadbed.runtime.build_probe"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=folder,  # drivers write dumps here
            env=environment,
            start_new_session=True,  # so that a compiler's own children end with it
        )
        try:
            child.communicate(json.dumps(request).encode(), TIME_LIMIT)
        except subprocess.TimeoutExpired:
            return f"its compiler did not end within {TIME_LIMIT:.0f} s"
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if child.returncode in (_SURVIVED, _NOT_PROBED):
            return None
        output.seek(0)
        lines = output.read().decode(errors="replace").split("\n")
    message = next((line.strip()[:200] for line in reversed(lines) if line.strip()), "no message")
    code = child.returncode
    return f"its compiler ended with {signal.Signals(-code).name if code < 0 else f'status {code}'} ({message})"


def main() -> int:
    """The child: build the program of the request on standard input, and finish the compilation of every kernel."""
    request = json.load(sys.stdin)
    try:
        import pyopencl as cl

        from roadbed.runtime.opencl_devices import handles

        handle = handles()[0][request["index"]]
        if handle.name.strip() != request["name"]:
            return _NOT_PROBED
        context = cl.Context([handle])
    except Exception:
        return _NOT_PROBED
    with suppress(cl.Error):  # a message about the source is for the parent to show
        built = cl.Program(context, request["text"]).build(request["options"], cache_dir=cast(str, False))
        built.get_info(cl.program_info.BINARIES)  # PoCL compiles kernels when they are launched or asked for
    return _SURVIVED


if __name__ == "__main__":
    sys.exit(main())
