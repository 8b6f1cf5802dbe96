# SPDX-License-Identifier: Apache-2.0
"""Ctrl+C at any moment of waiting ends the wait."""

import subprocess
import sys

# The signal arrives at the nth call or return inside of `wait`; another thread ends the wait if there are fewer.
SIGNALS = """
import signal, sys, threading
from roadbed.cli.screen import until_stopped

for moment in range(12):
    with until_stopped() as stopped:
        late = threading.Timer(1.0, stopped.set)
        seen = 0

        def count(*_):
            global seen
            seen += 1
            if seen == moment + 1 and not stopped.is_set():  # a second signal interrupts
                sys.setprofile(None)
                late.cancel()
                signal.raise_signal(signal.SIGINT)

        late.start()
        sys.setprofile(count)
        stopped.wait()
        sys.setprofile(None)
        late.cancel()
        assert stopped.is_set()
print("every wait ended")
"""


def test_a_signal_at_any_moment_ends_the_wait():
    done = subprocess.run([sys.executable, "-c", SIGNALS], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "every wait ended\n", done.stderr
