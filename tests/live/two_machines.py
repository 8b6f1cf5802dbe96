# SPDX-License-Identifier: Apache-2.0
"""Two machines on one cable: network namespaces of this test alone, joined by a pair of virtual interfaces."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.conftest import require
from tests.live.processes import wait_until

ROBOT, OTHER = "10.77.0.1", "10.77.0.2"


class TwoMachines:
    """`on_robot` and `on_other` are the words before a command that run it on that machine."""

    def __enter__(self) -> TwoMachines:
        require(all(map(shutil.which, ("ip", "unshare", "nsenter"))), "no ip, unshare or nsenter")
        tried = subprocess.run(["unshare", "-rn", "true"], capture_output=True, text=True, check=False)
        require(tried.returncode == 0, f"no network namespaces: {tried.stderr}")
        self._held: list[subprocess.Popen] = []
        self.on_robot = self._hold("unshare", "-rn")
        self.on_other = self._hold(*self.on_robot, "unshare", "-n")
        run(*self.on_robot, "ip", "link", "add", "cable0", "type", "veth", "peer", "name", "cable1")
        run(*self.on_robot, "ip", "link", "set", "cable1", "netns", str(self._held[1].pid))
        for words, device, address in ((self.on_robot, "cable0", ROBOT), (self.on_other, "cable1", OTHER)):
            run(*words, "ip", "link", "set", "lo", "up")
            run(*words, "ip", "address", "add", f"{address}/24", "dev", device)
            run(*words, "ip", "link", "set", device, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._held):
            process.kill()
            process.wait()

    def _hold(self, *words: str) -> tuple[str, ...]:
        """A namespace that lives as long as a process in it."""
        process = subprocess.Popen([*words, "sleep", "3600"])
        self._held.append(process)
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
        return ("nsenter", "--preserve-credentials", "-U", "-n", "-t", str(process.pid))


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
