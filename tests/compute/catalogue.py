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


def _stcrf(preset: str, coarse: bool = False) -> Callable[[], dict[str, int | float]]:
    def build() -> dict[str, int | float]:
        from roadbed.config import Config
        from roadbed.ground.stcrf import model as stcrf_programs

        ground = Config.preset(preset).ground
        stcrf = ground.stcrf
        define = stcrf_programs.coarse_definitions if coarse else stcrf_programs.definitions
        return define(ground, round(stcrf.width / stcrf.spacing), round(stcrf.length / stcrf.spacing))

    return build


def _variance() -> dict[str, int | float]:
    from roadbed.config.ground import VarianceConfig
    from roadbed.ground.variance.device import definitions

    return definitions(VarianceConfig(), 334, 334)


_PARTS = ("frame", "motion", "align", "places", "select", "start", "em", "labels")
_STCRF = tuple(f"ground/stcrf/{part}.cl" for part in _PARTS)
_COARSE = ("ground/stcrf/frame.cl", "ground/stcrf/em.cl")
PROGRAMS = {
    "collective": ProgramEntry(("compute/collective.cl",), dict),
    "stcrf paper": ProgramEntry(_STCRF, _stcrf("paper")),
    "stcrf default": ProgramEntry(_STCRF, _stcrf("default")),
    "stcrf coarse": ProgramEntry(_COARSE, _stcrf("default", coarse=True)),
    "variance": ProgramEntry(("ground/variance/variance.cl",), _variance, exact=True),
}
