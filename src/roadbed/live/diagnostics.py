# SPDX-License-Identifier: Apache-2.0
"""A stream's state as diagnostic_msgs/DiagnosticArray."""

from __future__ import annotations

from time import time
from typing import Any

from roadbed.live.counts import Statistics
from roadbed.outputs.ros_messages.store import DIAGNOSTICS, RosMessages

_OK, _WARN = 0, 1


def diagnostics(messages: RosMessages, now: Statistics, before: Statistics | None) -> Any:
    """Rate, latency and counts; a warning where scans were lost since `before`."""
    total = now.total
    lost = total.dropped + total.refused - (before.total.dropped + before.total.refused if before else 0)
    values = {"rate_hz": f"{now.rate:.2f}", "waiting": now.waiting, "without_pose": total.without_pose}
    for sensor, counts in now.sensors.items():
        for name in ("received", "processed", "dropped", "refused"):
            values[f"{sensor}/{name}"] = getattr(counts, name)
    for stage, (median, p95) in now.latency.items():
        values[f"{stage}_ms"] = f"{1e3 * median:.1f}"
        values[f"{stage}_p95_ms"] = f"{1e3 * p95:.1f}"
    pairs = [messages.make("diagnostic_msgs/msg/KeyValue", key=key, value=str(value)) for key, value in values.items()]
    status = messages.make(
        "diagnostic_msgs/msg/DiagnosticStatus",
        level=_WARN if lost else _OK,
        name="roadbed: pipeline",
        message=f"{lost} scans lost in the last second" if lost else now.line(),
        hardware_id="roadbed",
        values=pairs,
    )
    return messages.make(DIAGNOSTICS, header=messages.header(messages.stamp(time()), ""), status=[status])
