# SPDX-License-Identifier: Apache-2.0
"""Every parameter with its default, bounds, unit, meaning and the reason to change it, read off the models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from roadbed.config.base import Stage, stage_of

_UNITS = r"m/s\^2|m\^2/s\^2|m\^2|m/s|degrees/s|degrees|rad|m|s|Hz"
_UNIT = re.compile(rf"^({_UNITS})(?=$|[\s,;:])[,;]?\s*")
_SIGNS = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}

# The reason to change a parameter: of the longest name here that its own name begins with.
_REASONS = {
    "backend": "an accelerator is there and scans are large; `auto` takes the best one",
    "device": "there are several accelerators",
    "seed": "to see how much results depend on chance",
    "vehicle.clearance": "the vehicle is higher or lower than a car: what is above is overhang and no obstacle",
    "vehicle.body": "its size is known, or the vehicle stands when its body must already be left out",
    "vehicle.find_body": "things that are towed or pushed along must count as obstacles",
    "timeline": "frames say `pose jump` or `pause` where there was none, or not where there was one",
    "ground.method": "`variance` for the report's own results; `stcrf` is better everywhere else",
    "ground.mounting.height": "it is known, or the diagnostics say that it was not found",
    "ground.mounting.pitch": "it is known, or the diagnostics say that it was not found",
    "ground.mounting.roll": "it is known, or the diagnostics say that it was not found",
    "ground.mounting": "the mounting is not found although the road is in sight",
    "ground.stcrf.length": "less is looked at than the sensor sees, or time matters more than range",
    "ground.stcrf.width": "less is looked at than the sensor sees, or time matters more than range",
    "ground.stcrf.spacing": "finer for kerbs and small robots (slower), coarser for sparse sensors",
    "ground.stcrf.gamma": "0 where poses are bad; higher where they are exact and the sensor is sparse",
    "ground.stcrf.iterations": "fewer for speed; more where hills are cut off in the first frames",
    "ground.stcrf.warm_iterations": "fewer for speed",
    "ground.stcrf.sigma_up": "higher on rough ground or with a noisy sensor",
    "ground.stcrf.slope_limit": "terrain is steeper than this",
    "ground.stcrf.points_per_node": "lower for speed with dense sensors",
    "ground.stcrf.known_sigma": "higher: more of the surface is reported, less sure",
    "ground.stcrf": "hardly ever: chosen on many sensors at once; see the ablation on the page about the ground",
    "ground.time.motion": "`vehicle` for the paper's lattice; `rolling` does not resample",
    "ground.time": "hardly ever",
    "ground.labels.threshold": "lower to keep low things as obstacles, higher on rough ground",
    "ground.labels.smooth_threshold": "lower where even flatter things matter, down to the sensor's noise",
    "ground.labels.clear_threshold": "lower where high grass must not be ground",
    "ground.labels.highest": "lower where high grass or rocks must not be ground",
    "ground.labels": "hardly ever",
    "ground.without": "to measure a rule; leave `smooth` on in a vehicle: it keeps low obstacles on roads",
    "ground.variance": "to follow the report's params.yaml; finer cells for dense sensors",
    "occupancy.without": "to see what a rule is worth; `underpass` where low branches hide much free road",
    "occupancy.grid.length": "the grid should reach further or cost less",
    "occupancy.grid.width": "the grid should reach further or cost less",
    "occupancy.grid.spacing": "finer for pedestrians (slower), coarser for highways",
    "occupancy.grid.ahead": "more of the grid should lie before the vehicle",
    "occupancy.grid": "hardly ever",
    "occupancy.observation.obstacle_height": "lower where low things must be obstacles, higher on rough ground",
    "occupancy.observation.min_range": "the sensor sees its own housing or bracket",
    "occupancy.observation.azimuth_step": "to the sensor's own step where it is far from 0.4 degrees",
    "occupancy.observation": "hardly ever",
    "occupancy.fusion.reliability": "one sensor is worse than the others",
    "occupancy.fusion.rule": "to compare; `linear` is the safest with sensors that err together",
    "occupancy.fusion": "sensors are slower than 5 Hz",
    "occupancy.filter.particles": "frames say that dynamic mass found no particle; fewer for speed",
    "occupancy.filter.moving.speed": "slow pedestrians matter (lower), or standing things seem to move (higher)",
    "occupancy.filter": "hardly ever: see the page about the occupancy",
    "occupancy.objects": "objects fall into pieces, or neighbours are joined",
    "": "hardly ever",
}


@dataclass(frozen=True)
class Entry:
    """One parameter."""

    path: str  # e.g. ground.stcrf.beta
    default: Any
    bounds: str
    unit: str
    meaning: str
    reason: str  # when to change it


def entries(model: type[Stage], prefix: str = "") -> Iterator[tuple[str, str, list[Entry]]]:
    """Stage by stage, from the whole to the parts: dotted name, what it is about, and its own parameters."""
    stages = {name: stage for name, field in model.model_fields.items() if (stage := stage_of(field)) is not None}
    own = [_entry(f"{prefix}{name}", field) for name, field in model.model_fields.items() if name not in stages]
    yield prefix.rstrip("."), " ".join((model.__doc__ or "").split()), own
    for name, stage in stages.items():
        yield from entries(stage, f"{prefix}{name}.")


def markdown(model: type[Stage]) -> str:
    """The reference as a page."""
    lines = [
        "# Parameters",
        "",
        "Generated from the configuration models. A YAML file holds only what differs from these defaults; names are "
        "its keys, nested at the dots. `roadbed config show` prints a whole configuration, `roadbed config check FILE` "
        "says what is wrong with one, `roadbed view SOURCE` shows what a change does.",
    ]
    for name, about, own in entries(model):
        lines += ["", f"## {name or 'The whole'}", "", about]
        if own:
            lines += [
                "",
                "| parameter | default | bounds | unit | what it does | change it when |",
                "|---|---|---|---|---|---|",
            ]
        for entry in own:
            short = entry.path.rsplit(".", 1)[-1]
            cells = (f"`{short}`", f"`{entry.default}`", entry.bounds, entry.unit, entry.meaning, entry.reason)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _entry(path: str, field: FieldInfo) -> Entry:
    description = field.description or ""
    unit = _UNIT.match(description)
    meaning = description[unit.end() :] if unit else description
    reason = max((name for name in _REASONS if path.startswith(name)), key=len)
    default = field.get_default(call_default_factory=True)
    return Entry(
        path,
        "required" if field.is_required() else default,
        _bounds(field),
        unit.group(1) if unit else "",
        meaning or path.rsplit(".", 1)[-1].replace("_", " "),
        _REASONS[reason],
    )


def _bounds(field: FieldInfo) -> str:
    kinds = (field.annotation, *get_args(field.annotation))
    choices = [kind for kind in kinds if get_origin(kind) is Literal]
    if choices:
        return ", ".join(str(value) for value in get_args(choices[0]))
    if field.annotation is bool:
        return "true, false"
    limits = [
        f"{_SIGNS[type(limit)]} {getattr(limit, type(limit).__name__.lower()):g}"
        for limit in field.metadata
        if type(limit) in _SIGNS
    ]
    return ", ".join(limits)
