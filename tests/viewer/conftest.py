# SPDX-License-Identifier: Apache-2.0
"""A short simulated sequence that all viewer tests share, and a real browser."""

import shutil
from importlib.util import find_spec
from time import monotonic, sleep

import pytest

from roadbed.core.errors import InputError
from roadbed.sources import Source
from tests.conftest import require
from tests.simulated import simulated

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--window-size=720,540",
)


class ShortSequence(Source):
    """A few scans kept in memory; `broken` ones cannot be read, as if the recording were damaged there."""

    name = "short-drive"

    def __init__(self, scans, broken=()):
        super().__init__("short sequence")
        self.scans, self.broken = scans, set(broken)
        self.reads = []  # (scan, time) in the order in which they were asked for

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, index):
        if index in self.broken:
            raise InputError(f"scan {index}: found <b>half</b> a record, expected a whole one")
        self.reads.append((index, monotonic()))
        return self.scans[index]


@pytest.fixture(scope="session")
def viser():
    require(find_spec("viser") is not None, "no viser: pip install -e '.[view]'")
    import viser

    return viser


@pytest.fixture(scope="session")
def scans():
    return simulated("sim:city?sensor=vlp16&seed=2", 8)


@pytest.fixture(scope="session")
def long_scans():
    """Long enough for velocities to settle, with cars, a cyclist and pedestrians."""
    return simulated("sim:city?sensor=vlp16&seed=2", 32)


@pytest.fixture
def short_sequence(scans):
    return lambda broken=(): ShortSequence(scans, broken)


@pytest.fixture(scope="session")
def browser():
    require(find_spec("selenium") is not None, "no selenium: pip install -e '.[dev]'")
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    require(bool(program and driver), "no chromium and chromedriver: run scripts/install-system-parts.sh")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in FLAGS:
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(driver))
    browser.set_page_load_timeout(120)
    browser.set_script_timeout(120)
    yield browser
    browser.quit()


def wait_until(condition, what, seconds=300.0):
    """Ask again and again, ever less often: a screenshot takes more processor time than what is waited for."""
    end, pause = monotonic() + seconds, 0.02
    while monotonic() < end:
        value = condition()
        if value:
            return value
        sleep(pause)
        pause = min(1.5 * pause, 0.5)
    pytest.fail(f"waited {seconds:g} s for {what}")


@pytest.fixture(scope="session")
def until():
    return wait_until
