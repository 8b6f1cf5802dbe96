# SPDX-License-Identifier: Apache-2.0
"""`roadbed explain`: which rule gave a point its label, with the values that the rule used."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadbed.cli.options import FrameIndex, Request, expand_options, prepare
from roadbed.cli.screen import Json, print_json
from roadbed.core.errors import InputError

if TYPE_CHECKING:
    from roadbed.core.frames import Scan

_FARTHEST_M = 1.0  # from --at, of the point that is explained
_CLOSE_M = 0.25  # around that point, whose labels are counted
_RULES = {
    "height": "its height above the surface alone decides",
    "visibility": "a beam passed beneath it, or the surface rises steeply there",
    "isolated_returns": "it is alone below the ground: a reflection",
    "smooth": "the road is smooth all around, so the low threshold applies",
    "pillars": "a structure rises in its pillar",
    "pillars_around": "a structure rises in the 3 x 3 pillars around it",
    "foot_by_ratio": "it is the foot of a structure with hardly any ground around",
    "foot_by_support": "it is the foot of a structure where the ground was hardly seen",
    "clear": "nothing rises above it, so a higher threshold applies",
    "banks": "the ground there is firm up to the clear threshold",
    "steep_banks": "it lies on an unbroken slope",
    "open_ground": "the region is uneven and has no walls",
    "vote": "most neighbours at its height have this label",
    "low_outliers": "it lies more than 1 m below the surface",
}


@partial(expand_options, without=("backend", "device"))
def explain(
    request: Request,
    at: Annotated[tuple[float, float], typer.Option(metavar="X Y", help="Where, m, in the frame of the sensor.")],
    z: Annotated[float | None, typer.Option(help="Height there, m; without it the point nearest to X Y.")] = None,
    frame: FrameIndex = 0,
    history: Annotated[int, typer.Option(min=0, help="How many scans before it are processed first.")] = 0,
    as_json: Json = False,
) -> None:
    """Show which rule gave a point its label, with its values."""
    import numpy as np

    from roadbed import GroundFilter
    from roadbed.ground.explanation import explain as explain_point

    settings = request.settings().with_changes(backend="cpu", device=None)  # all backends give the same labels
    scans = request.scans()
    scan = request.scan(scans, frame)
    index, distance = _nearest(scan, at, z)
    prepare(request.source, settings, occupancy=False)
    ground = GroundFilter(settings)
    for earlier in range(max(frame - history, 0), frame):
        ground(scans[earlier])
    result = ground(scan)
    found = explain_point(ground, result, index)
    close = np.hypot(*(scan.points - scan.points[index]).T[:2]) < _CLOSE_M
    facts: dict[str, Any] = {
        "source": request.source,
        "scan": scan.name,
        "point": index,
        "xyz_m": [round(float(value), 3) for value in scan.points[index]],
        "distance_m": round(distance, 3),
        "label": found.label.name.lower(),
        "rule": found.rule,
        "without": {rule: label.name.lower() for rule, label in found.without.items()},
        "values": {**found.values, "labels_around": _label_counts(result.label[close])},
        "diagnostics": list(dict.fromkeys(scans.diagnostics + scan.diagnostics + result.diagnostics)),
    }
    if as_json:
        print_json(facts)
    else:
        _print(facts)


def _nearest(scan: Scan, at: tuple[float, float], z: float | None) -> tuple[int, float]:
    """The point nearest to a position, and its distance in m; at a height `z` if one is given."""
    import numpy as np

    target = np.array([*at] if z is None else [*at, z])
    distance = np.linalg.norm(scan.points[:, : len(target)].astype(np.float64) - target, axis=1)
    distance = np.where(np.isfinite(distance), distance, np.inf)
    nearest = int(np.argmin(distance)) if len(distance) else None
    if nearest is None or not distance[nearest] <= _FARTHEST_M:
        where = " ".join(f"{value:g}" for value in target)
        found = "none" if nearest is None else "the nearest at {:.2f} {:.2f} {:.2f}".format(*scan.points[nearest])
        raise InputError(f"--at {where}: expected a point within {_FARTHEST_M:g} m, found {found}")
    return nearest, float(distance[nearest])


def _label_counts(labels: Any) -> dict[str, int]:
    from roadbed.core.frames import Label

    return {label.name.lower(): n for label in Label if (n := int((labels == label).sum()))}


def _print(facts: dict[str, Any]) -> None:
    xyz = ", ".join(f"{value:.2f}" for value in facts["xyz_m"])
    away = f", {facts['distance_m']:.2f} m away" if facts["distance_m"] > _CLOSE_M else ""
    print(f"{facts['source']} {facts['scan']}: point {facts['point']} at {xyz} m{away}")
    print(f"label: {facts['label'].replace('_', ' ')}")
    names = facts["rule"].replace(" or ", ", ").split(", ")
    print(f"rule: {facts['rule']}" + "".join(f"\n  {name}: {_RULES[name]}" for name in names if name in _RULES))
    for rule, label in facts["without"].items():
        print(f"  without {rule} it would be {label.replace('_', ' ')}")
    for key, value in facts["values"].items():
        print(f"{key.removesuffix('_m').replace('_', ' '):30} {_text(key, value)}")
    for note in facts["diagnostics"]:
        print(f"note: {note}")


def _text(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')}: {n}" for name, n in value.items())
    if isinstance(value, list):
        return ", ".join(name.replace("_", " ") for name in value) or "none"
    return f"{value:.3g}" + (" m" if key.endswith("_m") else "")
