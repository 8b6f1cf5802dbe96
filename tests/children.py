# SPDX-License-Identifier: Apache-2.0
"""A child process that never outlives its test, and from which no read waits forever."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.conftest import take_interrupts

LONGEST_S = 600.0  # for a busy machine


@contextmanager
def child(*command: Any, **options: Any) -> Iterator[subprocess.Popen]:
    """Popen with text on standard output; the process is killed at the end of the block, or after ten minutes."""
    options = {"stdout": subprocess.PIPE, "text": True, "preexec_fn": take_interrupts, **options}
    with subprocess.Popen([str(part) for part in command], **options) as process:
        limit = threading.Timer(LONGEST_S, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()
