# SPDX-License-Identifier: Apache-2.0
"""Tables and progress on the screen, JSON for programs, and signals that end a command."""

import json
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite, isnan
from queue import SimpleQueue
from typing import Annotated, Any, TypeVar

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
T = TypeVar("T")


def print_json(values: Any) -> None:
    """Print values as JSON; NaN and infinities become null."""
    print(json.dumps(_plain(values), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """NumPy scalars and arrays as plain numbers, NaN and infinities as None."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not isfinite(value) else value


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; numbers are right-aligned."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    view = Table()
    rows = [list(row) for row in rows]
    for index, column in enumerate(columns):
        numeric = all(isinstance(row[index], int | float) or row[index] is None for row in rows)
        view.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        view.add_row(*(escape(_cell(value)) for value in row))
    console = Console(emoji=False)
    if not console.is_terminal:
        console = Console(width=160, emoji=False)  # a file or a pipe has no width that rows should wrap to
    console.print(title, markup=False, highlight=False)
    console.print(view)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and isnan(value)):
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def progress(items: Iterable[T], text: str, total: int | None = None) -> Iterable[T]:
    """Iterate over `items` with a progress bar on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=text, total=total, console=Console(stderr=True), transient=True)


class StopRequest:
    """An event that a signal handler may set: `threading.Event` deadlocks if the main thread holds its lock."""

    def __init__(self) -> None:
        self._is_set = False
        self._wake: SimpleQueue[None] = SimpleQueue()  # the only queue whose `put` is reentrant

    def set(self) -> None:
        self._is_set = True
        self._wake.put(None)

    def is_set(self) -> bool:
        return self._is_set

    def wait(self) -> None:
        """Block the one thread that waits until `set` is called."""
        if not self._is_set:
            self._wake.get()


@contextmanager
def until_stopped() -> Iterator[StopRequest]:
    """Ctrl+C, SIGTERM or SIGHUP sets the request, a second signal interrupts; the earlier handlers return at the end.

    A SIGHUP that is ignored, as under nohup, stays ignored.
    """
    stopped = StopRequest()

    def stop(number: int, _: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
