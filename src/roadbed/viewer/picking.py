# SPDX-License-Identifier: Apache-2.0
"""The clicked point and its properties."""

import numpy as np
from numpy.typing import ArrayLike

from roadbed.core.frames import Label
from roadbed.core.geometry import Float64
from roadbed.outputs.images.scene3d import height_at
from roadbed.pipeline import Result


def nearest_to_ray(points: Float64, origin: ArrayLike, direction: ArrayLike, widest: float = 0.02) -> int | None:
    """The point nearest to the eye among those within `widest` radians of the ray; None if there is none."""
    direction = np.asarray(direction, np.float64) / np.linalg.norm(direction)
    away = np.asarray(points, np.float64) - np.asarray(origin, np.float64)
    along = away @ direction
    aside = np.linalg.norm(away - along[:, None] * direction, axis=1)
    with np.errstate(invalid="ignore"):
        angle = np.where(along > 0.1, aside / np.maximum(along, 0.1), np.inf)
    if not len(angle) or not np.nanmin(angle) < widest:
        return None
    # Of points at almost the same angle take the nearest: the others are hidden behind it.
    close = angle <= max(float(np.nanmin(angle)) * 1.5, 0.002)
    return int(np.flatnonzero(close)[np.argmin(along[close])])


def describe(result: Result, index: int) -> dict[str, str]:
    """Properties of one point as text."""
    scan, ground = result.scan, result.ground
    x, y, z = scan.points[index].tolist()
    facts = {
        "point": f"{index:,} of {len(scan):,}",
        "sensor frame": f"{x:.3f}, {y:.3f}, {z:.3f} m",
        "label": Label(ground.label[index]).name.lower().replace("_", " "),
        "probability of ground": f"{ground.ground_probability[index]:.3f}",
        "height above ground": f"{ground.height_above_ground[index]:.3f} m",
    }
    here = ground.T_grid_sensor @ scan.points[index : index + 1].astype(np.float64)
    variance = height_at(ground.grid, ground.variance, here[:, 0], here[:, 1])
    if np.isfinite(variance[0]):
        facts["deviation of the ground"] = f"{float(np.sqrt(variance[0])):.3f} m"
    for name, values in scan.all_channels().items():
        value = values[index]
        facts["true class" if name == "classes" else name] = (
            str(int(value) & 0xFFFF) if name == "classes" else f"{value:g}"
        )
    if result.occupancy is not None:
        cell = int(result.occupancy.grid.index(here[:, 0], here[:, 1])[0])
        if cell >= 0:
            frame = result.occupancy
            shares = [getattr(frame, name).ravel()[cell] for name in ("static", "dynamic", "free", "unknown")]
            facts["cell static, moving, free, unseen"] = ", ".join(f"{share:.2f}" for share in shares)
            velocity = frame.velocity.reshape(-1, 2)[cell]
            if np.isfinite(velocity).all():
                facts["cell velocity"] = f"{velocity[0]:.2f}, {velocity[1]:.2f} m/s"
    return facts
