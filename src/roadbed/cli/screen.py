# SPDX-License-Identifier: Apache-2.0
"""What commands print: tables and progress for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from math import isfinite, isnan
from typing import Annotated, Any, TypeVar

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead of tables.")]
T = TypeVar("T")


def print_json(values: Any) -> None:
    """Print values as JSON; what is not a number becomes null."""
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
    console = Console()
    if not console.is_terminal:
        console = Console(width=160)  # a file or a pipe has no width that rows should wrap to
    console.print(title, markup=False, highlight=False)
    console.print(view)


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and isnan(value)):
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def progress(items: Iterable[T], text: str, total: int | None = None) -> Iterable[T]:
    """Go through `items` with a progress bar on standard error, only where a person watches."""
    if not sys.stderr.isatty():
        yield from items
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(items, description=text, total=total, console=Console(stderr=True), transient=True)
