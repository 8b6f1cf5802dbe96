# SPDX-License-Identifier: Apache-2.0
"""The house: who may import whom, how long a file may be, and that the page on it shows what is there."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import roadbed

PACKAGE = Path(roadbed.__file__).parent
ROOT = PACKAGE.parent.parent
# From the top floor down; rooms of one floor may use each other only where the next table says so.
FLOORS = (
    ("cli", "viewer", "__main__", "warm_up"),
    ("bench",),
    ("batch",),
    ("outputs", "evaluate", "live"),
    ("pipeline",),
    ("ground", "occupancy", "sources"),
    ("simulate", "odometry", "mapping"),
    ("runtime",),
    ("kernels",),
    ("config",),
    ("io",),
    ("core",),
)
BESIDE = {
    ("cli", "viewer"),
    ("__main__", "cli"),
    ("cli", "warm_up"),
    ("outputs", "evaluate"),
    ("live", "outputs"),
}
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def modules():
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Every module of the package that a file imports, inside functions too; not those for type checking alone."""
    found = set()
    for node in ast.walk(_without_type_checking(ast.parse(path.read_text()))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "roadbed":
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {module for module in inner if _is_module(module)} or {node.module}
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "roadbed"}
    return found


def _without_type_checking(tree: ast.Module) -> ast.Module:
    def kept(node):
        return not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING")

    tree.body = [node for node in tree.body if kept(node)]
    return tree


def _is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_every_room_has_its_floor():
    rooms = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in modules()}
    assert rooms == set(FLOOR)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path):
    own = room_of(name_of(path))
    for module in imports(path):
        other = room_of(module)
        if other in ("", own):
            continue
        beside = FLOOR[own] == FLOOR[other] and (own, other) in BESIDE
        assert FLOOR[own] < FLOOR[other] or beside, f"{own} imports {module}"


def test_there_are_no_circles():
    """Imports at the top of files, which run when a module is loaded."""
    graph = {}
    for path in modules():
        tree = _without_type_checking(ast.parse(path.read_text()))
        tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        module = ast.Module(tree.body, [])
        found = set()
        for node in module.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "roadbed":
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {name for name in inner if _is_module(name)} or {node.module}
        graph[name_of(path)] = found
    done, under_way = set(), []

    def visit(name):
        if name in under_way:
            pytest.fail(" -> ".join([*under_way[under_way.index(name) :], name]))
        if name in done or name not in graph:
            return
        under_way.append(name)
        for other in sorted(graph[name]):
            visit(other)
        under_way.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)


def test_no_file_is_longer_than_400_lines():
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.cl"), *PACKAGE.rglob("*.h"), *(ROOT / "tests").rglob("*.py")]
    long = {str(f.relative_to(ROOT)): n for f in files if (n := len(f.read_text().splitlines())) > 400}
    assert not long


def test_no_kernel_takes_more_than_ten_arguments():
    too_many = []
    for path in PACKAGE.rglob("*_cpu.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and len(node.args.args) > 10:
                too_many.append(f"{path.name}:{node.name}")
    assert not too_many


def test_the_page_on_architecture_shows_the_tree():
    """Every room and every file named there exists, and every room is named."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    block = re.search(r"```text\n(.*?)```", text, re.S)
    assert block, "docs/architecture.md: expected the tree in a block of text"
    shown = set()
    folder: list[str] = []
    for line in block.group(1).splitlines():
        name = line.split()[0] if line.split() else ""
        depth = (len(line) - len(line.lstrip())) // 2
        if not name or depth == 0:
            continue
        folder = [*folder[: depth - 1], name.rstrip("/")]
        path = PACKAGE.joinpath(*folder)
        assert path.exists() or path.with_suffix(".py").exists() or "*" in name, f"{'/'.join(folder)} does not exist"
        shown.add(folder[0].removesuffix(".py"))
    assert shown >= set(FLOOR) - {"__main__"}


def test_the_public_names_are_there_and_star_import_leaves_open_alone():
    for name in roadbed.__all__:
        assert getattr(roadbed, name) is not None
    assert {"Result", "Source", "Mounting", "TrackedObject", "InputError", "ConfigError"} <= set(roadbed.__all__)
    script = "from roadbed import *\nassert open.__module__ == 'io' or open.__module__ == '_io', open"
    subprocess.run([sys.executable, "-c", script], check=True)
