# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks occupancy-scenes|occupancy-values|leave-one-out-occupancy`: accuracy of the occupancy."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from roadbed.cli.bench import CPU, BackendOption, show
from roadbed.cli.screen import Json, progress, table
from roadbed.config import Config
from roadbed.core.errors import ConfigError


def occupancy_scenes(
    scene: Annotated[list[str] | None, typer.Option(help="Only this scene; may be repeated.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seed of scene and filter; 701 to 705 by default.")] = None,
    backend: BackendOption = CPU,
    processes: Annotated[int, typer.Option(min=1, help="Sequences at once.")] = 1,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print means and runs as tables of a page.")] = False,
    as_json: Json = False,
) -> None:
    """Score the occupancy on simulated scenes: mean over held-out seeds, and the worst seed in brackets."""
    from benchmarks.occupancy_scenes import SCENES, markdown, mean_rows, run_rows
    from roadbed.bench.timing import report

    chosen, seeds = chosen_of(scene, SCENES, "scene"), seed or list(range(701, 706))
    measured = run_rows(chosen, seeds, str(backend), processes)
    runs = list(progress(measured, "sequences", len(chosen) * len(seeds)))
    rows = mean_rows(runs)
    if as_markdown:
        print(markdown(rows), markdown(runs), sep="\n\n")
        return
    show(report("occupancy-scenes", rows, backend=backend, seeds=seeds, runs=runs), tuple(rows[0]), as_json)


def occupancy_values(
    setting: Annotated[str, typer.Argument(help="A value of the configuration's occupancy, as filter.acceleration.")],
    values: Annotated[list[float], typer.Argument(help="What it is set to.")],
    scene: Annotated[list[str] | None, typer.Option(help="Scene; may be repeated. City and drive by default.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seed of scene and filter; 601 and 602 by default.")] = None,
    as_json: Json = False,
) -> None:
    """Compare values of one parameter of the occupancy: mean over seeds, on the same ground."""
    from benchmarks.leave_one_out_occupancy import FIGURES, SCENES, figures, recording_of
    from roadbed.bench.timing import report
    from roadbed.evaluate.metrics import mean

    configs = {value: Config().with_changes(occupancy=_nested(setting, value)) for value in values}
    rows, seeds = [], seed or [601, 602]
    for name in chosen_of(scene or ["city", "drive"], SCENES, "scene"):
        recordings = {k: recording_of(name, k) for k in seeds}
        for value, config in configs.items():
            runs = [figures(r, config.with_changes(seed=k)) for k, r in recordings.items() if r is not None]
            means = {figure: mean(run[figure] for run in runs) for figure in FIGURES}
            rows.append({"scene": name, setting: value, **means})
    show(report("occupancy-values", rows, backend="cpu", seeds=seeds), tuple(rows[0]), as_json)


def _nested(setting: str, value: float) -> dict[str, Any]:
    """{"a": {"b": value}} of "a.b"."""
    first, _, rest = setting.partition(".")
    return {first: _nested(rest, value) if rest else value}


def leave_one_out_occupancy(
    rule: Annotated[list[str] | None, typer.Option(help="Only this rule, or these: a+b; may be repeated.")] = None,
    scene: Annotated[list[str] | None, typer.Option(help="Only this scene; may be repeated.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Seed of scene and filter; 211 to 215 by default.")] = None,
    keep: Annotated[Path | None, typer.Option(help="JSON lines: records in it are not measured again.")] = None,
    as_json: Json = False,
) -> None:
    """Remove each occupancy rule alone: the change of the figures by scene, with its spread over seeds."""
    from benchmarks.leave_one_out_occupancy import RULES, SCENES, SHOWN, changes, records, rows
    from roadbed.bench.timing import report

    measured = [json.loads(line) for line in keep.read_text().splitlines()] if keep and keep.exists() else []
    chosen_of([name for names in rule or () for name in names.split("+")], RULES, "rule")
    chosen = chosen_of(scene, SCENES, "scene"), rule or list(RULES), seed or range(211, 216)
    for record in records(*chosen, list(measured)):
        measured.append(record)
        if keep:
            with keep.open("a") as file:
                file.write(json.dumps(record) + "\n")
    out = report("leave-one-out-occupancy", rows(changes(measured)), backend="cpu", runs=measured)
    show(out, list(out["rows"][0]), as_json)
    if not as_json:
        by_seed = [[r["scene"], r["seed"], *(r[name] for name in SHOWN)] for r in measured if r["rule"] == ""]
        table(f"with all rules, by seed; changes above: {', '.join(SHOWN)}", ["scene", "seed", *SHOWN], by_seed)


def chosen_of(names: list[str] | None, known: Collection[str], what: str) -> list[str]:
    """The given names, all of `known` without any."""
    for name in names or ():
        if name not in known:
            raise ConfigError(f"--{what}: found {name}, expected one of {', '.join(known)}")
    return names or list(known)
