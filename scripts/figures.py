# SPDX-License-Identifier: Apache-2.0
"""Run the commands behind the numbers of README and docs and compare: `make figures` exits with 1 if a number differs.

scripts/figures.yaml says which command prints which numbers of which line, and gives sections without a command a
reason. A number with neither is an error. Checks that need something missing are listed instead: real scans ($DATA), a
CUDA GPU, an idle machine (--idle), minutes of time (--slow). --coverage only counts numbers and runs nothing.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
# Not those of names (HDL-64E, 3x3, 99th); a dash in a table cell says that there is no value.
NUMBER = re.compile(r"(?<![\w.])(?<![A-Za-z]-)-?\d[\d,]*(?:\.\d+)?(?!\w)|(?<=\| )-(?= \|)")
# Code, link targets, comments, dates and versions.
NOT_TEXT = re.compile(r"`[^`]*`|\]\([^)]*\)|<!--.*?-->|\d{4}-\d\d-\d\d|(?<=\W)\d+(?:\.\d+){2,}")
TABLE = ROOT / "scripts" / "figures.yaml"
SELECTED = re.compile(r"([^\[]*)((?:\[[^\]]*\])*)$")


@dataclass(frozen=True)
class Figure:
    """The numbers of one line of a document, and where the command prints each."""

    document: str
    line: str  # a text that occurs in this line only; the numbers follow it
    places: tuple[str, ...]  # of each number in the output; "-": another check, or none
    command: str
    needs: tuple[str, ...]
    factor: float  # 1: the same number as printed; larger: a time, within this factor


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--idle", action="store_true", help="this machine is idle: times are compared, too")
    parser.add_argument("--slow", action="store_true", help="run what takes longer than a few minutes, too")
    parser.add_argument("--match", default="", help="only commands or documents that hold this text")
    parser.add_argument("--coverage", action="store_true", help="only count numbers with a check, a reason or neither")
    options = parser.parse_args()
    figures = [figure for figure in load() if options.match in f"{figure.command} {figure.document}"]
    if not figures:
        print(f"no check matches {options.match!r}")
        return 1
    unexplained = 0 if options.match else print_coverage(figures)
    if options.coverage:
        return 1 if unexplained else 0
    data = Path(os.environ.get("ROADBED_DATA") or ROOT.parent / "shared" / "data")
    have = {"data": data.is_dir(), "idle": options.idle, "slow": options.slow, "gpu": _has_gpu()}
    have |= {name: platform.machine() == name for name in ("x86_64", "aarch64")}
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
    print(f"{len(figures)} lines: {different} numbers differ, {left} lines not run")
    if left == len(figures):
        print("nothing was compared")
    return 1 if different or unexplained or left == len(figures) else 0


def load() -> Iterator[Figure]:
    for entry in yaml.safe_load(TABLE.read_text())["checks"]:
        needs = tuple(entry.get("needs", "").split())
        for line, places in entry["lines"].items():
            yield Figure(
                entry["document"], line, tuple(map(str, places)), entry["command"], needs, entry.get("factor", 1.0)
            )


class Outputs:
    """Outputs of commands, kept until a source, a script or the data change: an interrupted run continues."""

    def __init__(self, folder: Path, data: Path) -> None:
        self._folder, self._data = folder, data
        folder.mkdir(parents=True, exist_ok=True)
        folders = [ROOT / name for name in ("src", "scripts", "benchmarks", "tests/occupancy")]
        sources = sorted(path for folder in folders for path in folder.rglob("*") if path.stem != "figures")
        texts = [path.read_bytes() for path in sources if path.suffix in (".py", ".cl", ".h", ".yaml", ".json")]
        self._version = hashlib.sha256(b"".join(texts)).hexdigest()[:12]
        files = [(path, path.stat()) for path in sorted(data.rglob("*")) if path.is_file()]
        listed = [f"{path} {stat.st_size} {stat.st_mtime_ns}" for path, stat in files]
        self._data_version = hashlib.sha256("\n".join(listed).encode()).hexdigest()[:12]

    def of(self, command: str) -> Any:
        """Parsed where it is JSON, else its text."""
        data = self._data_version if "$DATA" in command else ""
        key = hashlib.sha256(f"{self._version} {data} {command}".encode()).hexdigest()[:16]
        kept = self._folder / f"{key}.txt"
        if not kept.exists() or command.startswith("cat "):
            print(f"$ {command}", flush=True)
            kept.write_text(self._run(command))
        text = kept.read_text()
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _run(self, command: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            places = {"$DATA": self._data, "$TEMP": folder}
            for name, place in places.items():
                command = command.replace(name, shlex.quote(str(place)))
            return self._stdout(shlex.split(command))

    @staticmethod
    def _stdout(words: list[str]) -> str:
        program = {"roadbed": [sys.executable, "-m", "roadbed"], "python": [sys.executable]}
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
        done = subprocess.run(
            program.get(words[0], words[:1]) + words[1:], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"{shlex.join(words)}: ended with {done.returncode}: {done.stderr.strip()[-400:]}")
        return done.stdout


def compare(figure: Figure, output: Any) -> Iterator[tuple[str, str, bool]]:
    """What the document says, what was found, and whether they agree, for every number of a line."""
    lines = [line for line in (ROOT / figure.document).read_text().splitlines() if figure.line in line]
    if len(lines) != 1:
        yield f"{len(lines)} such lines", "expected one", False
        return
    numbers = [match.group() for match in numbers_in(lines[0], lines[0].index(figure.line) + len(figure.line))]
    if len(numbers) != len(figure.places):
        yield f"{len(numbers)} numbers", f"expected {len(figure.places)}", False
        return
    for text, place in zip(numbers, figure.places):
        if place == "-":
            continue
        value = value_at(output, place)
        if text == "-":
            yield text, "nothing" if value is None else f"{value:g}", value is None
            continue
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


def numbers_in(line: str, start: int = 0) -> Iterator[re.Match[str]]:
    """Numbers of a line from `start` on, without those in code, link targets, dates and names."""
    text = NOT_TEXT.sub(lambda match: "_" * len(match.group()), line[start:])
    return NUMBER.finditer(line[:start] + text, start)


def print_coverage(figures: list[Figure]) -> int:
    """Count the numbers of each page, list lines with unexplained ones; returns how many these are."""
    reasons = yaml.safe_load(TABLE.read_text())["reasons"]
    totals = [0, 0, 0]
    for document in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        name = str(document.relative_to(ROOT))
        sections = {entry["section"] for entry in reasons if entry["document"] == name}
        checks = [figure for figure in figures if figure.document == name]
        counts, section, code = [0, 0, 0], "", False
        for number, line in enumerate(document.read_text().splitlines(), 1):
            code ^= line.startswith("```")
            if line.startswith("#"):
                section = line.strip("# ")
            if code or line.startswith(("    ", "#", "```")):
                continue
            checked = {start for figure in checks for start in _checked(figure, line)}
            others = [match for match in numbers_in(line) if match.group() != "-" and match.start() not in checked]
            explained = bool({"*", section} & sections)
            counts[0] += len(checked)
            counts[1 if explained else 2] += len(others)
            if others and not explained:
                print(f"  no check and no reason: {name}:{number}: {line[:90]}")
        print(f"  {name}: {counts[0]} numbers with a check, {counts[1]} with a reason, {counts[2]} with neither")
        totals = [total + count for total, count in zip(totals, counts)]
    print(f"coverage: {totals[0]} numbers with a check, {totals[1]} with a reason, {totals[2]} with neither")
    return totals[2]


def _checked(figure: Figure, line: str) -> Iterator[int]:
    if figure.line in line:
        matches = numbers_in(line, line.index(figure.line) + len(figure.line))
        yield from (match.start() for match, place in zip(matches, figure.places) if place != "-")


def _has_gpu() -> bool:
    try:
        from roadbed.runtime import cuda_devices
    except ImportError:
        return False
    return bool(cuda_devices.devices())


if __name__ == "__main__":
    sys.exit(main())
