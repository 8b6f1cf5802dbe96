# SPDX-License-Identifier: Apache-2.0
"""The many-core paper's table 1 and figures 7 to 10 as pictures, from what `roadbed bench occupancy` measured."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.occupancy import TASKS
from roadbed.io.atomic import atomic_write, output_errors

PAPER_WATTS = {"many-core (paper)": 0.967, "GPU (paper)": 40.0}  # at most, and typically


def draw_all(out: dict[str, Any], folder: Path) -> list[Path]:
    """One PNG for each of the paper's figures that there are measurements for."""
    figures: dict[str, Callable[[Any, dict[str, Any]], None]] = {
        "table-1": _table_1,
        "figure-7": lambda panel, out: _tasks(panel, out["figure_7"], "particles"),
        "figure-8": lambda panel, out: _tasks(panel, out["figure_8"], "resolution_m"),
    }
    if out.get("figure_9"):
        figures["figure-9"] = _figure_9
    if out["rows"][0]["watts"] is not None:
        figures["figure-10"] = _figure_10
    with output_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return [_draw(draw, out, folder / f"{name}.png") for name, draw in figures.items()]


def _draw(draw: Callable[[Any, dict[str, Any]], None], out: dict[str, Any], path: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    panel = figure.subplots()
    draw(panel, out)
    panel.grid(alpha=0.3)
    panel.set_title(f"{path.stem.replace('-', ' ')}: {out['device']},\n{out['date']}", fontsize=8)
    with atomic_write(path) as file:
        figure.savefig(file, dpi=120, format="png")
    return path


def _table_1(panel: Any, out: dict[str, Any]) -> None:
    rows = out["rows"]
    places, width = range(len(rows)), 0.27
    bars = {"here": "step_ms", "many-core (paper)": "paper_many_core_ms", "GPU (paper)": "paper_gpu_ms"}
    for k, (name, key) in enumerate(bars.items()):
        panel.bar([place + (k - 1) * width for place in places], [row[key] or 0 for row in rows], width, label=name)
    panel.set_xticks(places, [f"{row['particles']:,}\n{row['resolution_m']} m" for row in rows])
    panel.set_yscale("log")
    panel.set_ylabel("ms per step")
    panel.legend(frameon=False)


def _tasks(panel: Any, rows: list[dict[str, Any]], across: str) -> None:
    for task in TASKS:
        curve = [row[f"{task}_ms"] for row in rows]
        panel.plot([row[across] for row in rows], curve, marker="o", label=task.replace("_", " "))
    panel.set_xlabel(across.replace("_m", ", m"))
    panel.set_ylabel("ms")
    panel.legend(frameon=False)


def _figure_9(panel: Any, out: dict[str, Any]) -> None:
    units = [row["units"] for row in out["figure_9"]]
    for name in ("measurement_update", "step"):
        speed_up = [row[f"{name}_speed_up"] for row in out["figure_9"]]
        panel.plot(units, speed_up, marker="o", label=name.replace("_", " "))
    panel.plot(units, units, linestyle=":", color="grey", label="linear")
    panel.set_xlabel("compute units")
    panel.set_ylabel("speed-up")
    panel.legend(frameon=False)


def _figure_10(panel: Any, out: dict[str, Any]) -> None:
    watts = {"here": out["rows"][0]["watts"], **PAPER_WATTS}
    panel.bar(list(watts), list(watts.values()))
    panel.set_yscale("log")
    panel.set_ylabel("W")
