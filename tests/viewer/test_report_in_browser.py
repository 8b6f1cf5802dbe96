# SPDX-License-Identifier: Apache-2.0
"""The report opens from the file system in a real browser and its slider moves."""

from __future__ import annotations

import pytest

from roadbed.config import Config
from roadbed.outputs.report import RunRecorder, write_report
from roadbed.pipeline import Pipeline


@pytest.fixture
def report(scans, tmp_path):
    config = Config()
    recorder = RunRecorder("sim:city", config, title="A short drive", command="roadbed run sim:city")
    for result in Pipeline(config).run(scans[:3]):
        recorder.add(result.scan, result.ground, result.occupancy, result.seconds)
    return write_report(tmp_path / "report.html", recorder.summary())


def test_slider_and_keys_move_through_the_frames(report, browser, until):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser.get(report.as_uri())
    image, slider = browser.find_element(By.ID, "slide"), browser.find_element(By.ID, "seek")

    def shown():
        width = browser.execute_script("return arguments[0].naturalWidth", image)
        return width > 0 and int(image.get_attribute("data-frame"))

    until(lambda: shown() == 0 and shown() is not False, "the first frame")
    first = image.get_attribute("src")
    slider.send_keys(Keys.ARROW_RIGHT)
    until(lambda: shown() == 1, "the second frame")
    assert image.get_attribute("src") != first
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.END)
    until(lambda: shown() == 2, "the last frame")
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.HOME)
    until(lambda: shown() == 0, "the first frame again")
    browser.find_element(By.ID, "play").click()
    until(lambda: shown() == 2, "the end by playing")
    assert "frame" in browser.find_element(By.ID, "which").text
    assert "A short drive" in browser.title
    requests = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in requests if not name.startswith("data:")] == []
