# SPDX-License-Identifier: Apache-2.0
"""Sliders for the parameters: each change reruns the current frame; the configuration can be saved as YAML."""

import threading
from html import escape
from pathlib import Path
from typing import Any

from roadbed.core.errors import ConfigError
from roadbed.viewer.colouring import box, warning
from roadbed.viewer.parameters import FIRST, Parameter, changed, parameters, value_at
from roadbed.viewer.player import Player


class Tuning:
    """The part of the panel that changes the configuration."""

    def __init__(self, server: Any, player: Player, save_as: Path) -> None:
        self._player, self._save_as = player, save_as
        self._start = player.config
        self._controls: dict[str, Any] = {}
        self._changing = threading.Lock()  # several browsers may move sliders at once
        gui = server.gui
        found = parameters(player.config)
        for parameter in found:
            if parameter.path in FIRST:
                stage = parameter.path.split(".")[-2]
                self._add(gui, parameter, f"{stage} {parameter.name}")
        self._message = gui.add_html("")
        save = gui.add_button("Save configuration", hint=f"writes {save_as} on the machine that runs the viewer")
        download = gui.add_button("Download configuration")
        reset = gui.add_button("Reset")
        with gui.add_folder("All parameters", expand_by_default=False):
            self._add_groups(gui, [parameter for parameter in found if parameter.path not in FIRST])
        save.on_click(lambda _: self._save())
        download.on_click(lambda event: self._download(event.client))
        reset.on_click(lambda _: self._reset())

    def _add_groups(self, gui: Any, found: list[Parameter]) -> None:
        for group in dict.fromkeys(parameter.group for parameter in found):
            members = [parameter for parameter in found if parameter.group == group]
            if group == members[0].path:
                self._add(gui, members[0])
                continue
            with gui.add_folder(group, expand_by_default=False):
                for parameter in members:
                    self._add(gui, parameter)

    def _add(self, gui: Any, parameter: Parameter, name: str = "") -> None:
        name = name or parameter.name
        hint = f"{parameter.path}: {parameter.hint}" if parameter.hint else parameter.path
        if parameter.choices == (False, True):
            control = gui.add_checkbox(name, initial_value=parameter.value, hint=hint)
        elif parameter.choices:
            choices = tuple(str(choice) for choice in parameter.choices)
            control = gui.add_dropdown(name, choices, initial_value=str(parameter.value), hint=hint)
        else:
            whole = isinstance(parameter.value, int)
            low, high, step, value = (
                int(number) if whole else float(number)
                for number in (parameter.low, parameter.high, parameter.step, parameter.value)
            )
            control = gui.add_slider(name, min=low, max=high, step=step, initial_value=value, hint=hint)
        self._controls[parameter.path] = control
        # Values set by the server have no client; only those of a user count.
        control.on_update(lambda event: self._change(parameter, control) if event.client else None)

    def _change(self, parameter: Parameter, control: Any) -> None:
        with self._changing:
            value = control.value  # read now: events of quick changes may arrive out of order
            if parameter.choices and parameter.choices != (False, True):
                value = next(choice for choice in parameter.choices if str(choice) == value)
            in_force = value_at(self._player.config, parameter.path)
            if value == in_force:
                return
            try:
                self._player.tune(changed(self._player.config, parameter.path, value))
            except ConfigError as error:
                self._show(parameter.path, in_force)
                self._say(f"{warning('Not used')} {escape(str(error))}<br>{escape(parameter.path)} stays {in_force}")
            else:
                self._say("")

    def _show(self, path: str, value: Any) -> None:
        control = self._controls[path]
        control.value = str(value) if isinstance(control.value, str) else value

    def _reset(self) -> None:
        with self._changing:
            for parameter in parameters(self._start):
                self._show(parameter.path, parameter.value)
            self._say("")
            self._player.tune(self._start)

    def _save(self) -> None:
        try:
            self._player.config.save(self._save_as)
        except OSError as error:
            self._say(f"{warning('Not saved')} {escape(str(error))}")
            return
        self._say(f"saved as {escape(str(self._save_as))}")

    def _download(self, client: Any) -> None:
        if client is not None:
            client.send_file_download(self._save_as.name, self._player.config.dumps().encode())

    def _say(self, content: str) -> None:
        self._message.content = box(content) if content else ""
