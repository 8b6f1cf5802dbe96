# SPDX-License-Identifier: Apache-2.0
"""What the dynamic IoU of a simulated drive misses: why visible cells of movers are not said to move, and what else is.

`python scripts/occupancy_misses.py [SOURCE]`
Figures of docs/notebook/occupancy-rules.md: `sim:city?sensor=lux4&frames=75`
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import roadbed
from roadbed.evaluate.occupancy import _T_grid_sensor
from roadbed.evaluate.occupancy_truth import FREE, HIT, OCCUPIED, SEEN_BELOW, _around, _hit_cells
from roadbed.pipeline import Pipeline, Result

WARM_UP = 1.0  # s
OBSTACLE = 0.2  # m over the estimated ground from which a return is one


def returns_in_cells(result: Result, on_things: NDArray[np.bool_], T_grid_sensor: Any) -> list[NDArray[np.int64]]:
    """Per cell: measured returns from things, and those of them that stand over the estimated ground."""
    frame, heights = result.occupancy, result.ground.height_above_ground
    assert frame is not None
    places = T_grid_sensor @ result.scan.points
    cell = frame.grid.index(places[:, 0], places[:, 1])
    chosen = (on_things & (cell >= 0), on_things & (cell >= 0) & (heights >= OBSTACLE))
    return [np.bincount(cell[which], minlength=frame.grid.size).reshape(frame.grid.shape) for which in chosen]


def why(returns: int, high: int, probability: float) -> str:
    if returns == 0:
        return "no return measured in it"
    if high == 0:
        return "returns pass for ground"
    return "returns too few" if probability <= HIT else "hit"


def called(occupied: float, static: float, dynamic: float) -> str:
    if occupied <= OCCUPIED:
        return "free" if occupied < FREE else "undecided"
    return "static" if static >= dynamic else "moving"


def main() -> None:
    source: Any = roadbed.open(sys.argv[1] if len(sys.argv) > 1 else "sim:city?sensor=lux4&frames=75")
    missed, false, right, begin = Counter[Any](), Counter[Any](), 0, None
    for index, result in enumerate(Pipeline().run(source)):
        frame, truth = result.occupancy, source.truth(index)
        assert frame is not None
        assert frame.observation is not None
        begin = frame.time if begin is None else begin
        if frame.time < begin + WARM_UP - 1e-6:
            continue
        T_grid_sensor = _T_grid_sensor(frame, result.ground)
        there = truth.occupancy(frame.grid, T_grid_sensor, seen_below=SEEN_BELOW)
        visible = np.where(there.occupied, _hit_cells(frame, truth, T_grid_sensor), there.visible)
        mover = there.occupied & there.moving
        says = (frame.occupied > OCCUPIED) & (frame.dynamic > frame.static)
        returns, high = returns_in_cells(result, (truth.object_id > 0) & ~truth.spurious, T_grid_sensor)
        for at in map(tuple, np.argwhere(mover & visible & ~says)):
            state = called(frame.occupied[at], frame.static[at], frame.dynamic[at])
            missed[why(returns[at], high[at], frame.observation[at]), state] += 1
        near = _around(mover)
        for at in map(tuple, np.argwhere(says & ~mover & visible)):
            hit = "hit" if frame.observation[at] > HIT else "not hit"
            false["beside a mover" if near[at] else "on what stands" if there.occupied[at] else "elsewhere", hit] += 1
        right += int(np.count_nonzero(says & mover & visible))
    total = right + missed.total() + false.total()
    print(f"dynamic IoU {right / total:.3f}: {right} right, {missed.total()} missed, {false.total()} false")
    for name, counts in (("missed", missed), ("false", false)):
        for kind, count in counts.most_common():
            print(f"{name}: {count} {', '.join(kind)}")


if __name__ == "__main__":
    main()
