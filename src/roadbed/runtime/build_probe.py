# SPDX-License-Identifier: Apache-2.0
"""Builds an OpenCL program in a child process first, because some drivers' compilers crash or never end.

The outcome is cached by driver, driver version, compiler options and program text: a program that was built once costs
one file read. The child is this module, run with `python -m`.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Any, cast

from roadbed.runtime import opencl_devices, program_cache
from roadbed.runtime.device import Device

TIME_LIMIT = 180.0  # s per program; the largest takes 20 s on two cores with PoCL
_READY = "roadbed: compiling"  # the child's last line before the driver's compiler runs
_BODY = re.compile(r"\bKERNEL(?:_OF_SIZE\([^)]*\))?\s+\w+\([^{};]*\)\s*\{")  # of a kernel, up to its brace
_GUARD = " if (get_global_size(2) == 1) return;"  # always, but no compiler knows


def crash_of(device: Device, files: tuple[str, ...], text: str, options: list[str]) -> str | None:
    """One line if the driver's compiler crashes on this program, else None. A refused program is not a crash."""
    outcome = program_cache.file("opencl-probes", (device.driver, device.name, *options, text), ".txt")
    with suppress(OSError):
        return outcome.read_text(encoding="utf-8") or None
    if not sys.executable:  # Python is embedded in another program: there is no interpreter to start
        return None
    status, lines = _run_child({"index": device.index, "name": device.name, "options": options, "text": text})
    if _READY not in lines:  # the child cannot import this package, or finds other devices
        return None
    crash = ""
    if status != 0:
        crash = (
            f"{device.driver} ({device.name}) cannot compile {', '.join(files)}: {_reason(status, lines)}; use "
            f"backend='cpu', another device or another version of this driver (remove {outcome} to try again)"
        )
    program_cache.write(outcome, crash.encode())
    return crash or None


def _run_child(request: dict[str, Any]) -> tuple[int | None, list[str]]:
    """The exit status, None if the time limit ended the child, and what it and the driver wrote."""
    with tempfile.TemporaryDirectory(prefix="roadbed-probe-") as folder, tempfile.TemporaryFile() as output:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "POCL_CACHE_DIR": folder,  # PoCL prefers cached binaries over kernels for fixed group sizes
        }
        child = subprocess.Popen(
            [sys.executable, "-m", "roadbed.runtime.build_probe"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=folder,  # drivers write dumps here
            env=environment,
            start_new_session=True,  # so that processes started by the compiler can be ended with it
        )
        status: int | None = None
        with suppress(subprocess.TimeoutExpired):
            child.communicate(json.dumps(request).encode(), TIME_LIMIT)
            status = child.returncode
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        output.seek(0)
        lines = output.read().decode(errors="replace").splitlines()
    return status, [line.strip() for line in lines if line.strip()]


def _reason(status: int | None, lines: list[str]) -> str:
    if status is None:
        return f"its compiler did not end within {TIME_LIMIT:.0f} s"
    ended = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    message = "" if lines[-1] == _READY else f" ({lines[-1][:200]})"
    return f"its compiler ended with {ended}{message}"


def main() -> None:
    """The child: build the program of the request on standard input, and finish the compilation of every kernel.

    PoCL compiles kernels when they are launched or queried. Mesa compiles at the first launch, as other drivers whose
    devices run work-items side by side may do: there each kernel is launched once, and returns at once.
    """
    import pyopencl as cl

    request = json.load(sys.stdin)
    handle = opencl_devices.handles()[0][request["index"]]
    assert handle.name.strip() == request["name"]
    context = cl.Context([handle])
    print(_READY, flush=True)
    with suppress(cl.Error):  # the parent shows messages about the source
        built = cl.Program(context, request["text"]).build(request["options"], cache_dir=cast(str, False))
        built.get_info(cl.program_info.BINARIES)
        if handle.native_vector_width_float == 1:
            launch_guarded(context, request["text"], request["options"])


def launch_guarded(context: Any, text: str, options: list[str]) -> None:
    """Launch every kernel of a program with a guard that returns before the kernel's first statement."""
    import numpy as np
    import pyopencl as cl

    program = cl.Program(context, _BODY.sub(lambda body: body[0] + _GUARD, text))
    queue, buffer = cl.CommandQueue(context), cl.Buffer(context, cl.mem_flags.READ_WRITE, 16)
    for kernel in program.build(options, cache_dir=cast(str, False)).all_kernels():
        for index in range(kernel.num_args):
            for value in (buffer, np.int32(0), np.int64(0)):  # of any type: nothing is read
                with suppress(cl.Error):
                    kernel.set_arg(index, value)
                    break
        asked = kernel.get_work_group_info(cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE, context.devices[0])[0]
        cl.enqueue_nd_range_kernel(queue, kernel, (asked or 64,), (asked or 64,)).wait()


if __name__ == "__main__":
    main()
