# SPDX-License-Identifier: Apache-2.0
"""The report opens from the file system in a real browser and its slider moves."""

import pytest

from roadbed.config import Config
from roadbed.outputs.report import RunRecorder, write_report
from roadbed.outputs.report.comparison import Comparison
from roadbed.pipeline import Pipeline


@pytest.fixture
def report(scans, tmp_path):
    config = Config()
    command = "roadbed run /" + "a-folder-with-a-long-name/" * 6 + "sequence -o out"
    recorder = RunRecorder("sim:city", config, title="A short sequence", command=command)
    for result in Pipeline(config).run(scans[:3]):
        recorder.add(result)
    return write_report(tmp_path / "report.html", recorder)


def test_a_comparison_is_divided_where_its_slider_says(scans, browser, until, tmp_path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    configs = Config(), Config.preset("paper")
    comparison = Comparison("sim:city", ("default", "paper"), configs, "roadbed compare default paper sim:city")
    one, other = (Pipeline(config) for config in configs)
    for scan in scans[:2]:
        comparison.add(one(scan), other(scan))
    comparison.write(tmp_path / "report.html")
    browser.get((tmp_path / "report.html").as_uri())
    second, wipe = browser.find_element(By.ID, "other"), browser.find_element(By.ID, "wipe")
    sides = [
        browser.execute_script("return arguments[0].getBoundingClientRect().toJSON()", e)
        for e in (browser.find_element(By.ID, "slide"), second)
    ]
    assert sides[0] == sides[1]  # one lies over the other

    def clip():
        return browser.execute_script("return getComputedStyle(arguments[0]).clipPath", second)

    assert clip() == "inset(0px 0px 0px 50%)"
    frame = browser.find_element(By.ID, "slide").get_attribute("data-frame")
    wipe.send_keys(Keys.ARROW_RIGHT)
    until(lambda: clip() == "inset(0px 0px 0px 51%)", "the line to move")
    assert browser.find_element(By.ID, "slide").get_attribute("data-frame") == frame


def test_the_page_fits_a_phone(report, browser, tmp_path):
    """Nothing makes the page wider than the screen, however long names and tables are."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    )
    try:
        browser.get(report.as_uri())
        # A phone zooms out of a page that is too wide, so that the window seems to fit it: 390 is what counts.
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        assert browser.execute_script("return window.innerWidth") == 390
        tall = browser.execute_script("return document.querySelector('table').getBoundingClientRect().height")
        assert tall < 844
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_slider_and_keys_move_through_the_frames(report, browser, until):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    browser.get(report.as_uri())
    image, slider = browser.find_element(By.ID, "slide"), browser.find_element(By.ID, "seek")

    def shown():
        width = browser.execute_script("return arguments[0].naturalWidth", image)
        return width > 0 and int(image.get_attribute("data-frame"))

    until(lambda: shown() is not False, "the busiest frame")
    browser.find_element(By.TAG_NAME, "body").send_keys(Keys.HOME)
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
    assert "A short sequence" in browser.title
    requests = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [name for name in requests if not name.startswith("data:")] == []
