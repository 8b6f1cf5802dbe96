# SPDX-License-Identifier: Apache-2.0
"""The panel of the page: status, playback, display options, the picked point."""

from html import escape
from typing import Any

from roadbed.viewer.colouring import COLOURINGS, box, colourings_of, warning
from roadbed.viewer.picking import describe, nearest_to_ray
from roadbed.viewer.player import Player
from roadbed.viewer.runner import LONG_PAST, Shown
from roadbed.viewer.scans import LiveScans
from roadbed.viewer.scene import Scene

_SPEEDS = ("0.1x", "0.25x", "0.5x", "1x", "2x", "5x")


class Controls:
    """Connects the panel to the player and the scene."""

    def __init__(self, server: Any, player: Player, scene: Scene, title: str) -> None:
        self._server, self._player, self._scene, self._title = server, player, scene, title
        gui = server.gui
        self._status = gui.add_html(box(f"<b>{escape(title)}</b><br>starting: reading and compiling ..."))
        tabs = gui.add_tab_group()
        with tabs.add_tab("View"):
            self._add_view(gui)
        self.tuning_tab = tabs.add_tab("Tune")
        self._connect(gui)

    def _add_view(self, gui: Any) -> None:
        with gui.add_folder("Playback"):
            self._play = gui.add_button("Pause" if self._player.playing else "Play")
            self._steps = gui.add_button_group("Step", ("-10", "-1", "+1", "+10"))
            self._frame = gui.add_slider("Frame", min=0, max=1, step=1, initial_value=0)
            self._speed = gui.add_dropdown("Speed", _SPEEDS, initial_value="1x")
        with gui.add_folder("Show"):
            self._colour = gui.add_dropdown("Colour by", COLOURINGS, initial_value="label")
            self._point_size = gui.add_slider("Point size", min=0.02, max=0.4, step=0.01, initial_value=0.08)
            self._switches = {
                name: gui.add_checkbox(text, initial_value=on)
                for name, text, on in (
                    ("cloud", "Cloud", True),
                    ("surface", "Elevation", True),
                    ("grid", "Occupancy", True),
                    ("arrows", "Velocities", True),
                    ("objects", "Objects", True),
                )
            }
        with gui.add_folder("Legend"):
            self._legend = gui.add_html("")
        with gui.add_folder("Picked point"):
            self._picked = gui.add_html(box("click a point in the scene"))

    def _connect(self, gui: Any) -> None:
        self._play.on_click(lambda _: self._player.play(not self._player.playing))
        self._steps.on_click(lambda event: self._player.step(int(event.target.value)))
        self._frame.on_update(self._on_user(lambda: self._player.seek(int(self._frame.value))))
        self._speed.on_update(self._on_user(lambda: self._player.set_speed(float(self._speed.value[:-1]))))
        for name, control in {"colour": self._colour, "point_size": self._point_size, **self._switches}.items():
            control.on_update(self._on_user(lambda name=name, control=control: self._display(name, control)))
        self._server.scene.on_click()(self._pick)
        for label, key, action in (
            ("Play or pause", "P", lambda: self._player.play(not self._player.playing)),
            ("Next frame", "N", lambda: self._player.step(1)),
            ("Previous frame", "B", lambda: self._player.step(-1)),
        ):
            command = gui.add_command(label, hotkey=key)
            command.on_trigger(lambda _, action=action: action())

    def _on_user(self, action: Any) -> Any:
        """A callback that ignores values set by the server: those have no client."""
        return lambda event: action() if event.client else None

    def _display(self, name: str, control: Any) -> None:
        with self._scene.drawing:
            self._scene.set_display(**{name: control.value})
        self._legend.content = box(self._scene.legend())

    def show(self, shown: Shown) -> None:
        """Update the panel after a frame has been drawn."""
        self._frame.value = shown.index
        ways = colourings_of(shown.result.scan)
        if tuple(self._colour.options) != ways:
            self._colour.options = ways
        self._legend.content = box(self._scene.legend())
        self._status.content = box(self._describe(shown))

    def show_error(self, index: int, error: Exception) -> None:
        """Show a failure of the source or the pipeline; the viewer stays usable."""
        what = escape(f"frame {index}: {str(error) or type(error).__name__}")
        text = f"{warning('Error')} {what}<br>Choose another frame to continue."
        self._status.content = box(f"<b>{escape(self._title)}</b><br>{text}")

    def show_state(self) -> None:
        """Update the play button."""
        self._play.label = "Pause" if self._player.playing else "Play"

    def set_bounds(self, first: int, last: int) -> None:
        if first <= last:
            self._frame.min, self._frame.max = first, max(last, first + 1)

    def _describe(self, shown: Shown) -> str:
        result = shown.result
        lines = [f"<b>{escape(self._title)}</b>", f"frame {shown.index} {escape(result.scan.name)}"]
        lines.append(f"{len(result.scan):,} points, {100 * result.ground.is_ground.mean():.1f} % ground")
        times = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in result.timings.items())
        lines.append(escape(times))
        if isinstance(self._player.scans, LiveScans):
            lines.append(self._player.scans.rate_text(shown.index))
        if shown.scores:
            lines.append(_score_line(shown))
        if not shown.settled:
            lines.append(f"{warning('Velocities warm up')} {shown.past} of {LONG_PAST} frames of past")
        lines += [escape(message) for message in result.diagnostics]
        return "<br>".join(lines)

    def _pick(self, event: Any) -> None:
        drawn = self._scene.drawn()
        if drawn is None:
            return
        result, points = drawn
        index = nearest_to_ray(points, event.ray_origin, event.ray_direction)
        if index is None:
            self._scene.mark(None)
            self._picked.content = box("no point there")
            return
        self._scene.mark(points[index])
        rows = "".join(
            f"<tr><td style='padding-right:0.8em'>{escape(name)}</td><td>{escape(value)}</td></tr>"
            for name, value in describe(result, index).items()
        )
        self._picked.content = box(f"<table>{rows}</table>")


def _score_line(shown: Shown) -> str:
    parts = []
    for name in ("F1", "IoU"):
        change = shown.scores[name] - shown.before[name]
        tail = f" ({change:+.2f})" if shown.before is not shown.scores else ""
        parts.append(f"{name} {shown.scores[name]:.2f} %{tail}")
    return f'<span id="score">{", ".join(parts)}</span>'
