# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures, and the rule that a missing real part skips with a reason or, under ROADBED_REQUIRE=all, fails.

Real scans are not part of the project: they are asked for by ROADBED_DATA, by ROADBED_REQUIRE=all,data, or by a folder
../shared that lies beside it; asked for and absent, they fail.
"""

import atexit
import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No limits of time: the first example may compile, and the machine may be busy. CI draws the same examples each time,
# people draw new ones.
UNHURRIED = (HealthCheck.too_slow,)
settings.register_profile("roadbed", deadline=None, suppress_health_check=UNHURRIED, derandomize="CI" in os.environ)
settings.load_profile("roadbed")

ROOT = Path(__file__).parent.parent
# Children start in other folders: they import the same package, and benchmarks/ of this checkout.
_PATHS = [*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), str(ROOT)]
os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(entry).resolve()) for entry in _PATHS)


def _link_fast() -> None:
    """PoCL starts `ld` for each kernel that it builds, thousands of times; gold takes a third of its processor time."""
    if gold := shutil.which("ld.gold"):
        folder = tempfile.mkdtemp(prefix="roadbed-linker-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        (Path(folder) / "ld").symlink_to(gold)
        os.environ["COMPILER_PATH"] = folder  # where Clang, in PoCL, looks first


_link_fast()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, so that no process is left with one at the end."""
    marks = {item: item.get_closest_marker("long") for item in items}
    items.sort(key=lambda item: -(marks[item].args[0] if marks[item] else 0))


def pytest_collection_finish() -> None:
    """What is imported and collected stays to the end: to look for garbage among it takes seconds per file."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _leave_the_working_folder(tmp_path_factory):
    """No test reads or writes the folder pytest was started in; fixtures of larger scope start in an empty one."""
    os.chdir(tmp_path_factory.mktemp("session"))


@pytest.fixture(autouse=True)
def _empty_working_folder(tmp_path, monkeypatch):
    """Each test starts in an empty folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def unprobed(monkeypatch):
    """Programs of `backend="opencl"` are not built in a child process first, which takes as long as to build them."""
    monkeypatch.setattr("roadbed.runtime.opencl.crash_of", lambda *_: None)


def require(present: bool, reason: str) -> None:
    """Skip when a real part is missing; fail when the run promised to have every part."""
    if present:
        return
    if "all" in _required():
        pytest.fail(f"ROADBED_REQUIRE=all, but {reason}")
    pytest.skip(reason)


def _required() -> list[str]:
    return os.environ.get("ROADBED_REQUIRE", "").split(",")


def take_interrupts() -> None:
    """For a child that is to be interrupted: a run in the background ignores SIGINT, and hands that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def data_folder() -> Path | None:
    """Real scans: the folder named by ROADBED_DATA, else ../shared/data beside the project."""
    named = os.environ.get("ROADBED_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real scans; a skip where nobody asked for them, a failure where they were asked for."""
    folder = data_folder()
    if folder is None:
        named = os.environ.get("ROADBED_DATA")
        if named or "data" in _required() or (ROOT.parent / "shared").is_dir():
            pytest.fail(f"real scans are expected at {named or ROOT.parent / 'shared' / 'data'}, found no folder there")
        pytest.skip("no real scans: set ROADBED_DATA to a folder laid out as docs/data.md says")
    return folder


@pytest.fixture(scope="session")
def moving_result():
    """The whole chain over a simulated drive of a small sensor, until something moves."""
    from roadbed import Pipeline
    from tests.simulated import simulated

    result = None
    pipeline = Pipeline()
    for scan in simulated("sim:city?sensor=vlp16", 12):
        result = pipeline(scan)
    assert result.occupancy.moving.any()
    return result
