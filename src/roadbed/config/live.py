# SPDX-License-Identifier: Apache-2.0
"""Parameters of live runs: how much waits, what is dropped, and how long poses are waited for."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roadbed.config.base import Stage


class LiveConfig(Stage):
    """Queues between a sensor that does not wait and a pipeline that takes its time."""

    queue: int = Field(2, ge=1, le=10000, description="scans of one sensor that wait at most")
    when_full: Literal["drop_oldest", "wait"] = Field(
        "drop_oldest", description="what a full queue does: the newest scan wins, or whoever pushes waits"
    )
    pose_wait: float = Field(
        0.2, ge=0, le=60, description="s that a scan waits for its pose, and the first ones for their mounting"
    )
    pose_memory: float = Field(10.0, gt=0, le=3600, description="s of poses that are kept")
