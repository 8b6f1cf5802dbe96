# SPDX-License-Identifier: Apache-2.0
"""In a real browser: ground and obstacles are seen, sliders change labels, frames step, the configuration is saved."""

import re
from contextlib import suppress
from io import BytesIO

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from PIL import Image

from roadbed.config import Config
from roadbed.outputs.images import palette
from roadbed.viewer import Viewer
from tests.viewer.conftest import ShortSequence, wait_until

pytestmark = pytest.mark.long(40)

BROKEN = 6


class Page:
    """A viewer and a browser that looks at it. Loading it once is what takes long under software rendering."""

    def __init__(self, viser, browser, viewer, saved):
        self.viser, self.browser, self.viewer, self.saved = viser, browser, viewer, saved

    @property
    def shown(self):
        return self.viewer.player.shown

    def rotation(self, wxyz):
        return self.viser.transforms.SO3(wxyz).as_matrix()

    def text(self):
        return self.browser.execute_script("return document.body.innerText")

    def screen(self):
        """What is seen; nothing while the browser is too busy to answer."""
        from selenium.common.exceptions import TimeoutException

        with suppress(TimeoutException):
            return self._screen()
        return np.zeros((1, 1, 3), int)

    def _screen(self):
        return np.asarray(Image.open(BytesIO(self.browser.get_screenshot_as_png())).convert("RGB")).astype(int)

    def click(self, xpath):
        from selenium.common.exceptions import WebDriverException

        def try_once():
            try:
                visible = [found for found in self.browser.find_elements("xpath", xpath) if found.is_displayed()]
                self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", visible[0])
                visible[0].click()
            except (WebDriverException, IndexError):  # not there yet, or replaced just now
                return False
            return True

        wait_until(try_once, xpath)

    def open_tab(self, name):
        """Whichever one another test has left open."""
        self.click(f"//*[@role='tab'][@title='{name}']")

    def switch(self, name, on):
        """Turn a layer on or off; by its element, as lines that come above move it away from under a mouse."""
        self.open_tab("View")
        xpath = f"//*[normalize-space(text())='{name}']/following::input[@type='checkbox'][1]"

        def box():
            return next((found for found in self.browser.find_elements("xpath", xpath) if found.is_displayed()), None)

        found = wait_until(box, name)
        if found.is_selected() != on:
            self.browser.execute_script("arguments[0].click()", found)
        wait_until(lambda: box().is_selected() == on, f"{name} to be {'on' if on else 'off'}")

    def slider(self, name):
        xpath = f"//*[normalize-space(text())='{name}']/following::*[@role='slider'][1]"
        return wait_until(lambda: next(iter(self.browser.find_elements("xpath", xpath)), None), f"slider {name}")

    def press_in_slider(self, name, key):
        thumb = self.slider(name)
        self.browser.execute_script("arguments[0].focus()", thumb)
        thumb.send_keys(key)


@pytest.fixture(scope="module")
def page(viser, scans, browser, tmp_path_factory):
    saved = tmp_path_factory.mktemp("saved") / "tuned.yaml"
    with Viewer(ShortSequence(scans, [BROKEN]), port=0, save_as=saved, title="a <sequence>") as viewer:
        wait_until(lambda: viewer.player.shown, "the first frame, compiled")
        browser.get(viewer.address)
        yield Page(viser, browser, viewer, saved)
        browser.get("about:blank")


def pixels_of(image, colour):
    return int((np.abs(image - palette.rgb(colour)).max(-1) < 20).sum())


def test_ground_and_obstacles_are_seen(page, until):
    def both_are_drawn():
        image = page.screen()
        return pixels_of(image, palette.GROUND) > 400 and pixels_of(image, palette.OBSTACLE) > 150

    until(both_are_drawn, "ground and obstacles on the screen")
    until(lambda: "unseen" in page.text(), "the occupancy, which is shown from the start, in the legend")

    def lines_of_the_surface():
        """Half transparent, over white, grey or blue."""
        red, green, blue = np.moveaxis(page.screen()[:, :450], -1, 0)
        return ((red > green + 20) & (green > blue + 10) & (red > 150)).sum() > 2000

    until(lines_of_the_surface, "the elevation over the occupancy")
    until(lambda: "a <sequence>" in page.text(), "the title")
    until(lambda: f"F1 {page.shown.scores['F1']:.2f} %" in page.text(), "the score")


def colours_of_cells(page, share):
    """What is seen where a cell and all within half a metre are almost wholly of one kind."""
    ground, grid = page.shown.result.ground, page.shown.result.occupancy
    sure = sliding_window_view(np.pad(share, 2), (5, 5)).min((-1, -2)) > 0.9
    rows, columns = np.nonzero(sure)
    places = np.column_stack([grid.grid.x[columns], grid.grid.y[rows], np.zeros(len(rows))])
    places[:, :2] -= ground.T_grid_vehicle.translation[:2]
    (client,) = page.viewer._server.get_clients().values()
    camera, image = client.camera, page.screen()
    seen = (places - camera.position) @ page.rotation(camera.wxyz)
    seen = seen[seen[:, 2] > 1]
    focal = camera.image_height / 2 / np.tan(camera.fov / 2)
    u = (focal * seen[:, 0] / seen[:, 2] + camera.image_width / 2).astype(int)
    v = (focal * seen[:, 1] / seen[:, 2] + camera.image_height / 2).astype(int)
    left_of_the_panel = (u >= 0) & (u < 0.5 * image.shape[1]) & (v >= 0) & (v < image.shape[0])
    return image[v[left_of_the_panel], u[left_of_the_panel]]


def test_free_and_unseen_cells_have_the_colours_of_the_legend(page, until):
    page.viewer.player.seek(5)
    until(lambda: page.shown.index == 5, "a frame with a past")
    page.switch("Cloud", False)
    page.switch("Elevation", False)
    page.switch("Occupancy", True)
    grid = page.shown.result.occupancy

    def as_in_the_palette():
        free, unseen = colours_of_cells(page, grid.free), colours_of_cells(page, grid.unknown)
        return (
            min(len(free), len(unseen)) > 300
            and np.abs(np.median(free, 0) - palette.rgb(palette.FREE)).max() < 15
            and np.abs(np.median(unseen, 0) - palette.rgb(palette.UNSEEN)).max() < 5
            and pixels_of(page.screen(), palette.STATIC) > 100
        )

    until(as_in_the_palette, "white free cells and grey unseen ones")
    for name, colour in (("static", "STATIC"), ("moving", "MOVING"), ("free", "FREE"), ("unseen", "UNSEEN")):
        patch = page.browser.find_element("xpath", f"//span[normalize-space()='{name}']/i")
        found = patch.value_of_css_property("background-color")
        assert re.findall(r"\d+", found)[:3] == [str(value) for value in palette.rgb(getattr(palette, colour))]
    page.switch("Occupancy", False)
    until(lambda: "unseen" not in page.text(), "a legend of what is shown only")
    for name in ("Occupancy", "Elevation", "Cloud"):
        page.switch(name, True)


def test_a_step_shows_the_next_frame(page, until):
    page.viewer.player.seek(0)
    until(lambda: "frame 0" in page.text(), "frame 0")
    page.open_tab("View")
    page.click("//button[normalize-space()='+1']")
    until(lambda: page.shown.index == 1, "the next frame")
    until(lambda: "frame 1" in page.text(), "its number in the page")


def test_the_page_shows_that_velocities_have_too_short_a_past(page, until):
    page.viewer.player.seek(3)
    until(lambda: "frame 3" in page.text() and "Velocities warm up 3 of 20 frames of past" in page.text(), "the notice")


def test_a_slider_changes_labels_and_shows_the_score(page, until):
    from selenium.webdriver.common.keys import Keys

    before = page.shown.result.ground.label
    page.open_tab("Tune")
    page.press_in_slider("stcrf sigma up", Keys.END)
    until(lambda: page.viewer.player.config.ground.stcrf.sigma_up > 0.2, "the slider's new value")
    until(lambda: (page.shown.result.ground.label != before).any(), "other labels")

    def score():
        now, before = page.shown.scores["F1"], page.shown.before["F1"]
        return f"F1 {now:.2f} % ({now - before:+.2f})"

    until(lambda: score() in page.text(), "the change in the page")


def test_a_value_that_makes_no_sense_is_refused_and_the_slider_goes_back(page, until):
    from selenium.webdriver.common.keys import Keys

    def shown():
        return float(page.slider("stcrf beta").get_attribute("aria-valuenow"))

    page.open_tab("Tune")
    kept = page.viewer.player.config
    page.press_in_slider("stcrf beta", Keys.END)
    until(lambda: "information would grow without bound" in page.text(), "the reason in the page")
    until(lambda: f"ground.stcrf.beta stays {kept.ground.stcrf.beta}" in page.text(), "the value in force in the page")
    until(lambda: shown() == kept.ground.stcrf.beta, "the slider to go back")
    assert page.viewer.player.config == kept
    page.press_in_slider("stcrf beta", Keys.ARROW_RIGHT)
    until(lambda: page.viewer.player.config.ground.stcrf.beta > kept.ground.stcrf.beta, "the next value")
    until(lambda: shown() == page.viewer.player.config.ground.stcrf.beta, "the same value in the slider")
    until(lambda: "information would grow" not in page.text(), "the reason to go")


def test_the_tuned_configuration_is_saved(page, until):
    page.open_tab("Tune")
    page.click("//button[normalize-space()='Save configuration']")
    until(page.saved.exists, "the file")
    assert Config.load(page.saved) == page.viewer.player.config
    until(lambda: f"saved as {page.saved}" in page.text(), "the name of the file in the page")


def test_a_frame_that_cannot_be_read_is_reported_and_the_server_lives(page, until):
    page.viewer.player.seek(BROKEN)
    until(lambda: "found <b>half</b> a record" in page.text(), "the error in the page, as text")
    page.viewer.player.step(1)
    until(lambda: page.shown.index == BROKEN + 1, "the frame after it")
    until(lambda: f"frame {BROKEN + 1}" in page.text() and "half" not in page.text(), "its number in the page")


def test_the_camera_stays_above_the_ground(page, until):
    from selenium.webdriver import ActionChains

    def height():
        """Of the eye over the road, as the browser has it; its own vertical axis is y."""
        return page.browser.execute_script("return window.__viserMutable?.camera?.position.y ?? 0")

    until(lambda: height() > 10, "the first view, from above")
    (client,) = page.viewer._server.get_clients().values()
    camera = client.camera
    first = camera.position.copy(), camera.look_at.copy()
    canvas = page.browser.find_element("css selector", "canvas")
    for _ in range(3):
        drag = ActionChains(page.browser, duration=100).move_to_element_with_offset(canvas, -250, 150)
        drag.click_and_hold().move_by_offset(0, -150).move_by_offset(0, -150).release().perform()
    until(lambda: height() < 5, "the view to have turned")
    until(lambda: height() > 0.3 and camera.position[2] > 0.3, "the eye above the ground")
    page.viewer.player.seek(4)
    until(lambda: page.shown.index == 4, "another frame")
    until(lambda: camera.position[2] > 0.3, "the eye above the ground of another frame")
    camera.position, camera.look_at = first
    until(lambda: height() > 10, "the first view again, for other tests")


def test_another_browser_sees_the_same_and_is_forgotten_when_it_closes(page, until):
    def clients():
        return len(page.viewer._server.get_clients())

    until(lambda: clients() == 1, "the first browser")
    first = page.browser.current_window_handle
    page.browser.switch_to.new_window("tab")
    try:
        page.browser.get(page.viewer.address)
        until(lambda: clients() == 2, "the second browser")
        until(lambda: f"frame {page.shown.index}" in page.text(), "the same frame in it")
        page.browser.close()
    finally:
        page.browser.switch_to.window(first)
    until(lambda: clients() == 1, "the second one to be forgotten")
