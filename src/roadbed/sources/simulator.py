# SPDX-License-Identifier: Apache-2.0
"""Simulated drives as a source: `sim:city?sensor=hdl64e&frames=100&seed=3`."""

from __future__ import annotations

from roadbed.sources.registry import Source


class SimulatorSource(Source):
    name = "simulator"

    @classmethod
    def matches(cls, location: str) -> bool:
        return location.startswith("sim:")
