# SPDX-License-Identifier: Apache-2.0
"""Parameters of live runs: queues between a sensor and the pipeline."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roadbed.config.base import Stage


class LiveConfig(Stage):
    """Queues between a sensor and the pipeline, one per sensor."""

    queue: int = Field(2, ge=1, le=10000, description="scans of one sensor that wait, at most")
    when_full: Literal["drop_oldest", "wait"] = Field(
        "drop_oldest", description="what a full queue does: drop its oldest scan, or block the caller"
    )
    pose_wait: float = Field(
        0.2, ge=0, le=60, description="s that a scan waits for its pose, and the first scans for their mounting"
    )


REMOVED = {"live.pose_memory": "removed in 1.0: it follows from live.pose_wait"}
