# SPDX-License-Identifier: Apache-2.0
"""Every device program of the package: its kernel files and definitions, for tests and tools that build them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ProgramEntry:
    files: tuple[str, ...]
    definitions: Callable[[], dict[str, int | float]]
    exact: bool = False


def _stcrf(preset: str) -> Callable[[], dict[str, int | float]]:
    def definitions() -> dict[str, int | float]:
        from roadbed.config import Config
        from roadbed.ground.stcrf_device import definitions

        ground = Config.preset(preset).ground
        stcrf = ground.stcrf
        return definitions(ground, round(stcrf.width / stcrf.spacing), round(stcrf.length / stcrf.spacing))

    return definitions


def _variance() -> dict[str, int | float]:
    from roadbed.config.ground import VarianceConfig
    from roadbed.ground.variance_device import definitions

    return definitions(VarianceConfig(), 334, 334)


_STCRF_FILES = ("ground/stcrf_frame.cl", "ground/stcrf_em.cl", "ground/stcrf_labels.cl")
PROGRAMS = {
    "collective": ProgramEntry(("compute/collective.cl",), dict),
    "stcrf paper": ProgramEntry(_STCRF_FILES, _stcrf("paper")),
    "stcrf default": ProgramEntry(_STCRF_FILES, _stcrf("default")),
    "variance": ProgramEntry(("ground/variance.cl",), _variance, exact=True),
}
