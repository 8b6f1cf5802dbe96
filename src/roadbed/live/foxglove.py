# SPDX-License-Identifier: Apache-2.0
"""Results for the Foxglove app, on a websocket: the messages of the ROS 2 node, which the app shows without ROS."""

from collections.abc import Iterable
from secrets import token_urlsafe
from typing import Any

from roadbed.core.closing import Closing
from roadbed.core.errors import DeviceError, needs_extra
from roadbed.io.web_guard import Guard, address_of, is_loopback
from roadbed.outputs.ros_messages.results import TOPICS, FrameNames, ResultMessages, sensor_frame
from roadbed.outputs.ros_messages.store import RosMessages
from roadbed.pipeline import Result
from roadbed.sources.bags.type_names import RESULTS

with needs_extra("foxglove-sdk and websockets", "live", "Foxglove"):
    import foxglove

    from roadbed.io.web_relay import Relay, hidden_address

_APP = ("https://app.foxglove.dev", "file://")  # in the browser; on the desktop, an Electron page
_LOG, _WARNING = "rcl_interfaces/msg/Log", 30


class FoxgloveSink(Closing):
    """Serves each result that is `show`n at `host`:`port`, to programs and to the pages in `origins` and of the app.

    The SDK's server has no access control: it listens at a random loopback address, and accepted connections are
    relayed to it. For a client that reads slowly it drops the oldest messages.
    """

    def __init__(self, host: str, port: int = 8765, origins: Iterable[str] = ()) -> None:
        self._messages, self._context, self._names = RosMessages(2), foxglove.Context(), FrameNames()
        self._channels = {topic: self._channel(topic, kind) for topic, kind in {**TOPICS, "log": _LOG}.items()}
        token = "" if is_loopback(host) else token_urlsafe(16)
        try:
            self._relay = Relay(host, port, Guard(host, token=token, origins=(*_APP, *origins)), "foxglove.sdk.v1")
            behind = hidden_address()
            self._inner = foxglove.start_server(name="Roadbed", host=behind, port=0, context=self._context)
        except (DeviceError, RuntimeError, OSError) as error:
            raise DeviceError(f"Foxglove at {host}:{port}: cannot listen there ({error})") from None
        self._relay.start((behind, self._inner.port))
        self.is_open = bool(token)  # to other machines
        self.address = address_of("ws", host, self._relay.port, token)

    def show(self, result: Result, diagnostics: tuple[str, ...] | None = None) -> None:
        """Publish one result on the topics that have subscribers."""
        made = ResultMessages(self._messages, result, self._names)
        for topic in made.topics():
            if self._channels[topic].has_sinks():
                self._publish(topic, self._transforms(result) if topic == "tf" else made.make(topic), result)
        for note in result.diagnostics if diagnostics is None else diagnostics:
            stamp = self._messages.stamp(result.scan.time)
            line = self._messages.make(_LOG, stamp=stamp, level=_WARNING, name="roadbed", msg=note)
            self._publish("log", line, result)

    def close(self) -> None:
        """Stop serving."""
        self._inner.stop()
        self._relay.close()

    def _channel(self, topic: str, kind: str) -> Any:
        definition, _ = self._messages.store.generate_msgdef(kind, ros_version=2)
        schema = foxglove.Schema(name=kind, encoding="ros2msg", data=definition.encode())
        name = "/tf" if topic == "tf" else f"{RESULTS}/{topic}"
        return foxglove.Channel(name, schema=schema, message_encoding="cdr", context=self._context)

    def _publish(self, topic: str, message: Any, result: Result) -> None:
        time = {} if result.scan.time is None else {"log_time": max(round(result.scan.time * 1e9), 0)}
        self._channels[topic].log(self._messages.to_bytes(message), **time)

    def _transforms(self, result: Result) -> Any:
        """The sensor in the grid, and the grid in the world of the odometry: without ROS no other node sends them."""
        ground, names, messages = result.ground, self._names, self._messages
        stamp = messages.stamp(result.scan.time)
        sensor = sensor_frame(result.scan, names)
        found = messages.transform(messages.header(stamp, names.grid), sensor, ground.T_grid_sensor)
        if ground.T_world_grid is not None:
            world = messages.header(stamp, names.world)
            found.transforms += messages.transform(world, names.grid, ground.T_world_grid).transforms
        return found
