# SPDX-License-Identifier: Apache-2.0
"""The structure of the package: which folder may import which, no import circles, bounded files and folders."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import roadbed

PACKAGE = Path(roadbed.__file__).parent
ROOT = PACKAGE.parent.parent
# From the top layer down; folders of one layer may use each other only where the next table says so.
LAYERS = (
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
SAME_LAYER = {
    ("cli", "viewer"),
    ("__main__", "cli"),
    ("cli", "warm_up"),
    ("outputs", "evaluate"),
    ("live", "outputs"),
}
LAYER = {folder: layer for layer, folders in enumerate(LAYERS) for folder in folders}


def modules():
    """Every file but the root `__init__.py`, which is the public interface above all folders."""
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def folder_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports: at its top, inside functions, and by names in strings.

    Names in strings are those given to `import_module` or kept in tables, "roadbed.module" or "roadbed.module:name".
    Imports for type checking alone do not run, and do not count.
    """
    tree, found = ast.parse(path.read_text()), set()
    skipped = {id(inner) for node in ast.walk(tree) if _imports_nothing(node) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "roadbed":
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {module for module in inner if _is_module(module)} or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "roadbed"}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            if re.fullmatch(r"roadbed(\.\w+)+", name) and _is_module(name):
                found.add(name)
    return found


def _imports_nothing(node: ast.AST) -> bool:
    """A block for type checking, or a call that takes the name of a package without importing it."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") in ("files", "entry_points", "announce")
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def _is_module(name: str) -> bool:
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def test_every_folder_has_its_layer():
    folders = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in modules()}
    assert folders == set(LAYER)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down_only(path):
    own = folder_of(name_of(path))
    for module in imports(path):
        other = folder_of(module)
        if other in ("", own):
            continue
        same = LAYER[own] == LAYER[other] and (own, other) in SAME_LAYER
        assert LAYER[own] < LAYER[other] or same, f"{own} imports {module}"


def test_there_are_no_circles():
    """Whether an import runs at the top of a file, inside a function or by `import_module`."""
    graph = {name_of(path): sorted(imports(path) - {"roadbed"}) for path in modules()}
    circles = _circles(graph)
    assert not circles, "\n".join(" <-> ".join(sorted(circle)) for circle in circles)


def _circles(graph: dict[str, list[str]]) -> list[set[str]]:
    """Sets of modules that reach each other (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in graph[name]:
            if other in graph and other not in number:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == number[name]:
            members = {*stack[stack.index(name) :]}
            del stack[stack.index(name) :]
            if len(members) > 1:
                found.append(members)

    for name in graph:
        if name not in number:
            visit(name)
    return found


def test_a_circle_through_a_function_or_a_string_is_found(tmp_path):
    path = tmp_path / "probe.py"
    path.write_text(
        "def late():\n    from roadbed.core import frames\n    return import_module('roadbed.io.atomic')\n"
        "if TYPE_CHECKING:\n    from roadbed.core import errors\n"
    )
    assert imports(path) == {"roadbed.core.frames", "roadbed.io.atomic"}
    assert _circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}) == [{"a", "b", "c"}]


def test_no_file_is_longer_than_400_lines():
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.cl"), *PACKAGE.rglob("*.h"), *(ROOT / "tests").rglob("*.py")]
    long = {str(f.relative_to(ROOT)): n for f in files if (n := len(f.read_text().splitlines())) > 400}
    assert not long


def test_no_folder_has_more_than_30_files():
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    full = {str(f.relative_to(ROOT)): n for f in folders if (n := sum(p.is_file() for p in f.iterdir())) > 30}
    assert not full


def test_a_kernel_and_its_twin_have_the_same_stem():
    """A kernel file that names a twin in its head comment names `STEM_cpu.py` beside it."""
    wrong = []
    for path in PACKAGE.rglob("*.cl"):
        for twin in re.findall(r"Twin: `?(\w+\.py)", path.read_text()[:1000]):
            if twin != f"{path.stem}_cpu.py" or not path.with_name(twin).exists():
                wrong.append(f"{path.relative_to(PACKAGE)}: {twin}")
    assert not wrong


def test_types_are_checked_in_every_file_that_is_not_a_kernel():
    """Numba kernels (`*_cpu.py`) and the tools that they call (`kernels/`) have no types that mypy knows."""
    unchecked = [path.relative_to(PACKAGE) for path in modules() if "# mypy: ignore-errors" in path.read_text()]
    assert not [str(path) for path in unchecked if path.parts[0] != "kernels" and not path.stem.endswith("_cpu")]


def test_no_kernel_takes_more_than_ten_arguments():
    too_many = []
    for path in PACKAGE.rglob("*_cpu.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and len(node.args.args) > 10:
                too_many.append(f"{path.name}:{node.name}")
    assert not too_many


def test_the_page_on_architecture_shows_the_tree():
    """Every folder and file named there exists, and every folder is named."""
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
    assert shown >= set(LAYER) - {"__main__"}


def test_the_public_names_are_there_and_star_import_leaves_open_alone():
    for name in roadbed.__all__:
        assert getattr(roadbed, name) is not None
    assert {"Result", "Source", "Mounting", "TrackedObject", "InputError", "ConfigError"} <= set(roadbed.__all__)
    script = "from roadbed import *\nassert open.__module__ == 'io' or open.__module__ == '_io', open"
    subprocess.run([sys.executable, "-c", script], check=True)
