# SPDX-License-Identifier: Apache-2.0
"""What would be published: it builds, its metadata are in order, and it works where nothing of the checkout is."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml

import roadbed
from roadbed import Scan
from roadbed.outputs.pcd import write_pcd
from tests.conftest import ROOT

pytestmark = pytest.mark.long(20)


def run(*command, cwd, **environment):
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the source archive, made from what git knows."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    (archive,) = folder.glob("*.tar.gz")
    return wheel, archive


def test_the_metadata_are_in_order(built, tmp_path):
    assert run(sys.executable, "-m", "twine", "check", "--strict", *built, cwd=tmp_path).count("PASSED") == 2


def test_there_is_one_version(built):
    wheel, archive = built
    assert wheel.name.startswith(f"roadbed-{roadbed.__version__}-py3")
    assert archive.name == f"roadbed-{roadbed.__version__}.tar.gz"
    assert f"## {roadbed.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert not re.search(r'^version = "', (ROOT / "pyproject.toml").read_text(), re.M)
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["license"] == "Apache-2.0"


def test_everything_a_user_needs_is_inside(built):
    wheel, archive = built
    inside = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "roadbed"
    for path in package.rglob("*"):
        if path.is_file() and path.suffix in (".py", ".cl", ".h", ".yaml", ".typed"):
            assert f"roadbed/{path.relative_to(package).as_posix()}" in inside
    assert not [name for name in inside if name.startswith(("tests/", "docs/")) or name.endswith((".nbi", ".nbc"))]
    with tarfile.open(archive) as files:
        names = {Path(*Path(name).parts[1:]).as_posix() for name in files.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml", "src/roadbed/__init__.py"} <= names


def test_the_wheel_works_in_an_environment_of_its_own(built, tmp_path):
    """The dependencies are lent by this environment; Roadbed itself comes from the wheel alone."""
    environment = tmp_path / "env"
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=tmp_path)
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "-q", "--no-deps", "--no-index", built[0], cwd=tmp_path)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "lent.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = run(python, "-c", "import roadbed; print(roadbed.__file__)", cwd=tmp_path, PYTHONPATH="")
    assert Path(where.strip()).is_relative_to(packages)
    program = environment / "bin" / "roadbed"
    assert run(program, "--version", cwd=tmp_path, PYTHONPATH="") == f"roadbed {roadbed.__version__}\n"
    x, y = np.meshgrid(np.linspace(-5, 5, 120), np.linspace(-5, 5, 120))
    road = np.stack([x.ravel(), y.ravel(), np.full(x.size, -1.8)], axis=1)
    write_pcd(tmp_path / "road.pcd", Scan(road.astype(np.float32)))
    # Grid variance: its two kernels, which this copy compiles once more, take seconds; those of the default minutes.
    run(program, "segment", "road.pcd", "--method", "variance", "-o", "labelled", cwd=tmp_path, PYTHONPATH="")
    assert len(roadbed.open(tmp_path / "labelled" / "ground.pcd")[0]) > 0.95 * len(road)


def test_the_audit_covers_every_extra():
    """Those that `make audit` finds installed, by way of dev, and those that it resolves."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    own = next(line for line in extras["dev"] if line.startswith("roadbed["))
    installed = set(own.removeprefix("roadbed[").removesuffix("]").split(","))
    audit = re.search(r"^audit:.*?\n\n", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)[0]
    resolved = set(re.findall(r"\['optional-dependencies'\]\['(\w+)'\]", audit))
    assert installed | resolved | {"dev"} == set(extras)
    assert "--requirement" in audit
    assert "--upgrade pip setuptools" in audit
