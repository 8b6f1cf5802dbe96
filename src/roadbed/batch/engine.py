# SPDX-License-Identifier: Apache-2.0
"""Runs tasks on Ray, on this machine or on a cluster; tasks of lost workers are repeated."""

import os
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

from roadbed.core.errors import DeviceError, InputError, needs_extra

_OBJECT_STORE = 80 << 20  # bytes: only names and counts travel
ATTEMPTS = 4  # at one task
_STARTS = 3  # of Ray
_WAITING_PER_CORE = 4  # tasks handed to Ray before they can begin
_LOOK_EVERY = 0.5  # s
# Ray replaces 127.0.0.1 by the machine's address on the network, unless clusters of several machines are switched off.
_SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
_TOKEN = token_hex(32)  # Ray loads it once in a process
_REMOVE = 'read -r _; until rm -rf -- "$0" 2>/dev/null; do sleep 0.2; done'


@dataclass(eq=False)
class Task:
    """A generator that runs on a worker; `about` names its sequence."""

    about: str
    function: Callable[..., Iterator[Any]]
    arguments: tuple[Any, ...]
    attempts: int = 0


@dataclass(frozen=True)
class LostWorker:
    """The worker of a task is gone; `again`: the task is repeated."""

    reason: str
    attempt: int
    again: bool


class Engine:
    """`add` tasks, iterate over `events`; more may be added meanwhile. A context manager that starts and stops Ray."""

    def __init__(
        self,
        address: str | None,
        workers: int | None = None,
        gpu_share: float = 0.0,
        cpus: int = 1,
        attempts: int = ATTEMPTS,
    ) -> None:
        self._attempts = attempts
        self._address, self._workers, self._gpu_share, self._cpus = address, workers, gpu_share, cpus
        self._waiting, self._running = deque[Task](), dict[Any, Task]()
        self._exits = ExitStack()
        self._remote: dict[Callable, Any] = {}
        self.slots = 0  # tasks at a time

    def __enter__(self) -> Self:
        os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # OpenCL may see GPUs that Ray does not count
        with ExitStack() as exits:
            options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
            if self._address is None:
                for limit in ("RAY_gcs_server_port_wait_time_s", "RAY_worker_register_timeout_seconds"):
                    os.environ.setdefault(limit, "300")  # on a busy machine
                folder = exits.enter_context(temporary_folder())
                authenticate_local(folder / "token")
                options |= {
                    "address": "local",
                    "num_cpus": self._cpus * (self._workers or max(1, len(os.sched_getaffinity(0)) // self._cpus)),
                    "object_store_memory": _OBJECT_STORE,
                    "include_dashboard": False,
                    "_node_ip_address": "127.0.0.1",
                    "_temp_dir": str(folder),
                }
            else:
                authenticate_cluster()
                options["address"] = self._address
            with needs_extra("ray", "batch", "roadbed batch"):
                import ray  # reads the environment
            self._ray = ray
            exits.callback(ray.shutdown)
            self._start(options)
            self.check(ray.cluster_resources())
            self._exits = exits.pop_all()
        return self

    def _start(self, options: dict[str, Any]) -> None:
        """Ray gives up after 30 s, which its node may take to start on a busy machine: then it is tried again."""
        for attempt in range(1, _STARTS + 1):
            try:
                self._ray.init(**options)
                return
            except Exception as error:  # of many kinds, plain ones among them
                problem = " ".join(str(error).split())
            if attempt == _STARTS or self._address is not None or "timed out during startup" not in problem:
                raise DeviceError(f"Ray on {self._address or 'this machine'} does not answer ({problem})")

    def __exit__(self, *_: object) -> None:
        for generator in self._running:
            with suppress(Exception):  # a cluster keeps running: cancel our tasks
                self._ray.cancel(generator, force=True)
        self._exits.close()

    def add(self, task: Task) -> None:
        self._waiting.append(task)

    def drop_waiting(self) -> None:
        """Drop the tasks that were not handed to Ray yet."""
        self._waiting.clear()

    def events(self, is_stopped: Callable[[], bool]) -> Iterator[tuple[Task, Any]]:
        """Events that tasks yield, and (task, LostWorker) for a lost worker. Ends with the last task, or if stopped."""
        while (self._waiting or self._running) and not is_stopped():
            while self._waiting and len(self._running) < _WAITING_PER_CORE * self.slots:
                self._submit(self._waiting.popleft())
            ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=_LOOK_EVERY)
            for generator in ready:
                yield from self._next(generator)

    def _submit(self, task: Task) -> None:
        task.attempts += 1
        if task.function not in self._remote:
            self._remote[task.function] = self._ray.remote(task.function).options(
                num_cpus=self._cpus, num_gpus=self._gpu_share, max_retries=0, num_returns="streaming"
            )
        self._running[self._remote[task.function].remote(*task.arguments)] = task

    def _next(self, generator: Any) -> Iterator[tuple[Task, Any]]:
        task = self._running[generator]
        try:
            yield task, self._ray.get(next(generator))
        except StopIteration:
            del self._running[generator]
        except self._ray.exceptions.RayError as error:
            del self._running[generator]
            again = task.attempts < self._attempts
            if again:
                self._waiting.append(task)
            yield task, LostWorker(_why_lost(error), task.attempts, again)

    def check(self, found: Mapping[str, float]) -> None:
        """Set the number of parallel tasks from Ray's resources; an error if there are too few."""
        self.slots = int(found.get("CPU", 0) // self._cpus)
        if not self.slots:
            raise InputError(f"{self._cpus} cores per worker: Ray found {found.get('CPU', 0):g}, expected as many")
        if self._gpu_share:
            if not found.get("GPU"):
                raise DeviceError("backend cuda: Ray found no GPU, expected at least one")
            self.slots = min(self.slots, int(found["GPU"] / self._gpu_share))


def authenticate_local(file: Path) -> None:
    """Ray on this machine: on loopback, and requests need this process's token, which only this user can read."""
    with open(file, "x", opener=lambda path, flags: os.open(path, flags, 0o600)) as opened:
        opened.write(_TOKEN)
    os.environ |= {_SEVERAL_MACHINES: "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(file)}
    os.environ.pop("RAY_AUTH_TOKEN", None)


def authenticate_cluster() -> None:
    """Send the user's token to a cluster; warn if there is none. Early releases of Ray do not send it by default."""
    named = os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH")
    if named or (Path.home() / ".ray" / "auth_token").exists():
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    if os.environ.get("RAY_AUTH_MODE") != "token":
        print("roadbed: Ray: no token: others who reach the cluster can run code there", file=sys.stderr, flush=True)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed at the end, also when this process is killed."""
    path = tempfile.mkdtemp(prefix="roadbed-")
    # The shell waits for the end of its input, which comes with the end of this process.
    command = ["/bin/sh", "-c", _REMOVE, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as remover:
        try:
            yield Path(path)
        finally:
            assert remover.stdin is not None
            remover.stdin.close()


def _why_lost(error: Exception) -> str:
    names = {
        "OutOfMemoryError": "out of memory: Ray stopped its worker",
        "NodeDiedError": "its node is gone",
        "WorkerCrashedError": "its worker was killed",
    }
    kind = type(error).__name__
    return names.get(kind, f"{kind}: {' '.join(str(error).split())[:200]}")
