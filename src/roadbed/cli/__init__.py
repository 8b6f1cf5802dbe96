# SPDX-License-Identifier: Apache-2.0
"""The command line. Heavy imports live inside the commands, so that `--help` answers at once."""

import atexit
import gc
import os
import sys
from typing import Annotated, NoReturn

import typer

from roadbed import __version__
from roadbed.cli import (
    batch,
    bench,
    compare,
    config,
    demo,
    evaluate,
    explain,
    info,
    live,
    map,
    ros,
    run,
    segment,
    share,
    simulate,
    view,
    warm_up,
)
from roadbed.cli.screen import print_json
from roadbed.core.errors import RoadbedError

app = typer.Typer(
    name="roadbed",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="First steps: roadbed demo, then roadbed run SOURCE -o out. A source is a file of points, a folder of them, "
    "a bag, or simulated (sim:city); roadbed info SOURCE shows how it is read.",
)
for _command in (
    *(demo.demo, run.run, batch.batch, segment.segment, explain.explain, compare.compare, share.share),
    *(simulate.simulate, info.info, view.view, live.live, ros.ros1, ros.ros2, warm_up.warm_up),
):
    app.command()(_command)
for _name, _group in {"evaluate": evaluate, "bench": bench, "config": config, "map": map}.items():
    app.add_typer(_group.app, name=_name)

# The base class of typer's usage errors; its package differs between releases.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]


def _end() -> None:
    """Skip the garbage collections at the end of the process, which take a tenth of a second."""
    if "velodyne_decoder" not in sys.modules:  # it prints what is left of it
        gc.freeze()


def _print_version(value: bool) -> None:
    if value:
        print(f"roadbed {__version__}")
        raise typer.Exit


@app.callback()
def _roadbed(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Ground, obstacles, elevation and dynamic occupancy from raw LiDAR."""


def main(app: typer.Typer = app) -> None:
    """Run a command. An error of the user ends in one line and status 2, an interrupt in status 130."""
    atexit.register(_end)
    for name in ("stdin", "stdout", "stderr"):  # a closed stream is None in Python
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    try:
        status = app(standalone_mode=False)
        sys.stdout.flush()
    except RoadbedError as error:
        _fail(str(error))
    except _UsageError as error:
        _explain_usage(error)
    except (KeyboardInterrupt, typer.Abort):
        _fail("interrupted", 130)
    except BrokenPipeError:  # the reader of a pipe has closed it
        _discard_output()
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error))
    if status == 130:  # its result so far is printed
        print("roadbed: interrupted", file=sys.stderr)
    sys.exit(status)


def _explain_usage(error: Exception) -> NoReturn:
    if type(error).__name__ == "NoArgsIsHelpError":
        print(error, file=sys.stderr)
        sys.exit(2)
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    message = error.format_message().replace("Value error, ", "")  # type: ignore[attr-defined]
    _fail(f"{message}{hint}")


def _fail(message: str, status: int = 2) -> NoReturn:
    """Print one line on standard error; with --json also an object on standard output."""
    message = " ".join(message.split())
    print(f"roadbed: {message}", file=sys.stderr)
    try:
        if "--json" in sys.argv[1:]:
            print_json({"error": message})
        sys.stdout.flush()
    except OSError:
        _discard_output()
    sys.exit(status)


def _discard_output() -> None:
    """Standard output cannot be written: send the rest to the null device, or Python reports it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
