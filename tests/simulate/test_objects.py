# SPDX-License-Identifier: Apache-2.0
"""Simulated objects have the size that they claim, and movers stand on the road."""

import numpy as np
import pytest

from roadbed.simulate import objects
from roadbed.simulate.objects import CYLINDER, ELLIPSOID, Part

KINDS = {
    "car": (), "truck": (), "cyclist": (), "pedestrian": (), "wall": (6.0,), "guard_rail": (), "pole": (), "sign": (),
    "tree": (), "bush": (), "bridge": (12.0,), "tunnel": (11.0,), "low_box": (), "stone": (),
    "tyre": (), "kerb_stone": (),
}  # fmt: skip


def bounds(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest corner of the box around a part that is rolled, then pitched."""
    (cp, sp), (cr, sr) = ((np.cos(angle), np.sin(angle)) for angle in (part.pitch, part.roll))
    turn = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]]) @ np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    half = np.array(part.half)
    reach = np.abs(turn) @ half
    if part.shape == CYLINDER:
        reach = np.sqrt(turn[:, :2] ** 2 @ half[:2] ** 2) + np.abs(turn[:, 2]) * half[2]
    elif part.shape == ELLIPSOID:
        reach = np.sqrt(turn**2 @ half**2)
    return np.array(part.centre) - reach, np.array(part.centre) + reach


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_is_as_large_as_it_claims(kind: str) -> None:
    item = getattr(objects, kind)(None, *KINDS[kind])
    low, high = (np.array(corners) for corners in zip(*map(bounds, item.parts)))
    size = high.max(axis=0) - low.min(axis=0)
    assert size[1] == pytest.approx(item.width, abs=0.06)
    assert high[:, 2].max() == pytest.approx(item.height, abs=0.11)
    if kind not in ("pole", "tree"):  # with an arm, and a crown that is no circle
        assert size[0] == pytest.approx(item.length, abs=0.11)
    if kind in ("car", "truck", "cyclist", "pedestrian"):
        assert abs(low[:, 2].min()) < 0.03
