# SPDX-License-Identifier: Apache-2.0
"""Models of the stages with some constants replaced, for tests of single equations."""

import math
from dataclasses import replace
from typing import Any

from roadbed.config.occupancy import OccupancyConfig
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.occupancy.objects.model import TrackRule
from roadbed.occupancy.objects.tracker import ObjectTracker
from roadbed.occupancy.registration.model import RegistrationModel

NO_CHANCE: dict[str, Any] = {"acceleration": 0.0, "diffusion": 0.0}
NO_SURFACE: dict[str, Any] = {"surface_sigma": math.inf}
NO_MATURITY: dict[str, Any] = {"maturity_begin": math.inf}


def like(values: Any, changes: dict[str, Any]) -> dict[str, Any]:
    """Changes with the types of the values they replace: kernels are compiled for these."""
    return {name: type(getattr(values, name))(value) for name, value in changes.items()}


def changed(model: FilterModel, birth: Any = None, moving: Any = None, registration: Any = None, **changes: Any) -> Any:
    """A filter's model with some values of it and of its parts replaced."""
    return replace(
        model,
        birth=model.birth._replace(**like(model.birth, birth or {})),
        moving=model.moving._replace(**like(model.moving, moving or {})),
        registration=replace(model.registration, **like(model.registration, registration or {})),
        **like(model, changes),
    )


def filter_model(particles: int = 400, **changes: Any) -> FilterModel:
    """Without `surface_births`, unless asked for: observations of single cells have no surface."""
    return changed(FilterModel.of(OccupancyConfig()), particles=particles, **{"surface_births": False, **changes})


def registration_model(**changes: Any) -> RegistrationModel:
    return replace(RegistrationModel(), **like(RegistrationModel(), changes))


def tracker(**changes: Any) -> ObjectTracker:
    rule = TrackRule.of(OccupancyConfig())
    return ObjectTracker(rule._replace(**like(rule, changes)))
