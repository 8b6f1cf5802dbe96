# SPDX-License-Identifier: Apache-2.0
"""Print every figure of README and docs again and compare: `make figures` ends with 1 where the text differs.

scripts/figures.yaml says which command prints which numbers of which line. What a figure needs and is missing is listed
instead: real scans ($DATA), a CUDA GPU, an idle machine (--idle), minutes of time (--slow).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
SELECTED = re.compile(r"([^\[]*)((?:\[[^\]]*\])*)$")


@dataclass(frozen=True)
class Figure:
    """The numbers of one line of a document, and where the command prints each."""

    document: str
    line: str  # a text that only this line holds; the numbers stand behind it
    places: tuple[str, ...]
    command: str
    needs: tuple[str, ...]
    factor: float  # 1: the same number as printed; larger: a time, within this factor


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", action="store_true", help="this machine is idle: times are compared, too")
    parser.add_argument("--slow", action="store_true", help="run what takes longer than a few minutes, too")
    parser.add_argument("--match", default="", help="only commands or documents that hold this text")
    parser.add_argument("--uncovered", action="store_true", help="list lines with numbers that no command is named for")
    options = parser.parse_args()
    data = Path(os.environ.get("ROADBED_DATA") or ROOT.parent / "shared" / "data")
    have = {"data": data.is_dir(), "idle": options.idle, "slow": options.slow, "gpu": _has_gpu()}
    have["x86_64"] = platform.machine() == "x86_64"
    figures = [figure for figure in load() if options.match in f"{figure.command} {figure.document}"]
    outputs = Outputs(ROOT / "out" / "figures", data)
    different = left = 0
    for figure in figures:
        missing = [need for need in figure.needs if not have[need]]
        if missing:
            left += 1
            print(f"  not run, needs {', '.join(missing)}: {figure.document}: {figure.line}")
            continue
        for said, found, same in compare(figure, outputs.of(figure.command)):
            different += not same
            verdict = "same  " if same else "DIFFERS"
            print(f"  {verdict} {figure.document}: {figure.line.strip('| ')}: says {said}, found {found}")
    if options.uncovered:
        print(*uncovered(figures), sep="\n")
    print(f"{len(figures)} lines: {different} numbers differ, {left} lines not run")
    return 1 if different else 0


def load() -> Iterator[Figure]:
    for entry in yaml.safe_load((ROOT / "scripts" / "figures.yaml").read_text()):
        needs = tuple(entry.get("needs", "").split())
        for line, places in entry["lines"].items():
            yield Figure(
                entry["document"], line, tuple(map(str, places)), entry["command"], needs, entry.get("factor", 1.0)
            )


class Outputs:
    """What commands print, kept as long as the package stays the same: a run that was stopped goes on."""

    def __init__(self, folder: Path, data: Path) -> None:
        self._folder, self._data = folder, data
        folder.mkdir(parents=True, exist_ok=True)
        sources = sorted((ROOT / "src").rglob("*.*"))
        texts = [path.read_bytes() for path in sources if path.suffix in (".py", ".cl", ".h")]
        self._version = hashlib.sha256(b"".join(texts)).hexdigest()[:12]

    def of(self, command: str) -> Any:
        """Parsed where it is JSON, else its text."""
        key = hashlib.sha256(f"{self._version} {command}".encode()).hexdigest()[:16]
        kept = self._folder / f"{key}.txt"
        if not kept.exists():
            print(f"$ {command}", flush=True)
            kept.write_text(self._run(command))
        text = kept.read_text()
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _run(self, command: str) -> str:
        words = shlex.split(command.replace("$DATA", shlex.quote(str(self._data))))
        program = {"roadbed": [sys.executable, "-m", "roadbed"], "python": [sys.executable]}
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        done = subprocess.run(
            program.get(words[0], words[:1]) + words[1:], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"{command}: ended with {done.returncode}: {done.stderr.strip()[-400:]}")
        return done.stdout


def compare(figure: Figure, output: Any) -> Iterator[tuple[str, str, bool]]:
    """What the document says, what was found, and whether they agree, for every number of a line."""
    lines = [line for line in (ROOT / figure.document).read_text().splitlines() if figure.line in line]
    if len(lines) != 1:
        yield f"{len(lines)} such lines", "expected one", False
        return
    numbers = NUMBER.findall(lines[0].split(figure.line, 1)[1])
    if len(numbers) < len(figure.places):
        yield f"{len(numbers)} numbers", f"expected {len(figure.places)}", False
        return
    for text, place in zip(numbers, figure.places):
        if place == "-":
            continue
        value = value_at(output, place)
        said = float(text.replace(",", ""))
        digits = len(text.partition(".")[2])
        if value is None:
            yield text, f"nothing at {place}", False
        elif figure.factor > 1:
            yield text, f"{value:.{digits}f}", said / figure.factor <= value <= said * figure.factor
        else:
            yield text, f"{value:.{digits}f}", abs(value - said) <= 0.5001 * 10.0**-digits


def value_at(output: Any, place: str) -> float | None:
    """`rows[case=x].median_ms * 1000` of JSON, with the first of a list that has such a value; `TEXT # 2` of plain
    output: the second number behind a text."""
    if isinstance(output, str):
        text, _, number = place.partition("#")
        found = [line for line in output.splitlines() if text.strip() in line]
        numbers = NUMBER.findall(found[0].split(text.strip(), 1)[1]) if found else []
        at = int(number or 1) - 1
        return float(numbers[at].replace(",", "")) if at < len(numbers) else None
    path, _, factor = place.partition("*")
    for name, choices in (SELECTED.match(step.strip()).groups() for step in path.strip().split(".")):  # type: ignore[union-attr]
        output = output.get(name) if isinstance(output, dict) else None
        for choice in re.findall(r"\[([^\]]*)\]", choices):
            output = _chosen(output, choice)
    return None if output is None else float(output) * float(factor or 1)


def _chosen(items: Any, choice: str) -> Any:
    if items is None:
        return None
    key, is_value, value = choice.partition("=")
    if not is_value:
        return items[int(key)] if int(key) < len(items) else None
    return next((item for item in items if str(item.get(key)) == value), None)


def uncovered(figures: list[Figure]) -> Iterator[str]:
    """Table rows with decimals that no entry names: what they say is held by nothing here."""
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        name = str(document.relative_to(ROOT))
        named = [figure.line for figure in figures if figure.document == name]
        for number, line in enumerate(document.read_text().splitlines(), 1):
            if line.startswith("|") and re.search(r"\d\.\d", line) and not any(text in line for text in named):
                yield f"  no command: {name}:{number}: {line[:90]}"


def _has_gpu() -> bool:
    try:
        from roadbed.runtime import cuda_devices
    except ImportError:
        return False
    return bool(cuda_devices.devices())


if __name__ == "__main__":
    sys.exit(main())
