# SPDX-License-Identifier: Apache-2.0
"""What the dynamic IoU of a simulated drive misses: why visible cells of movers are not said to move, and what else is.
And in which frames movers have no velocity: a line of letters per mover, and causes.

`python scripts/occupancy_misses.py [SOURCE [SEED]]`
Figures of docs/notebook/occupancy-rules.md: `sim:city?sensor=lux4&frames=75`, `sim:city?frames=40&seed=20 20`
"""

import sys
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import roadbed
from roadbed.config import Config
from roadbed.core.frames import OccupancyFrame
from roadbed.evaluate.occupancy import _in_grid, _simulated, _T_grid_sensor
from roadbed.evaluate.occupancy_boxes import EXCLUDED_MARGIN, MIN_HITS, REGION_MARGIN, Annotation, _sight, _window
from roadbed.evaluate.occupancy_truth import FREE, HIT, OCCUPIED, SEEN_BELOW, _around, _hit_cells
from roadbed.evaluate.tracking import inside
from roadbed.occupancy.objects.clusters_cpu import components
from roadbed.pipeline import Pipeline, Result

WARM_UP = 1.0  # s
OBSTACLE = 0.2  # m over the estimated ground from which a return is one
NEAR = 1.0  # m around a mover beyond which a component of its hits is one with something else


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


class MoverFrames:
    """Frames of each mover: found `o`, missed `x`, in fewer hit cells than are judged `.`."""

    def __init__(self) -> None:
        self.letters: dict[str, str] = {}
        self.kinds: dict[str, str] = {}
        self.causes = Counter[str]()

    def add(self, frame: OccupancyFrame, boxes: list[Annotation]) -> None:
        for box in boxes:
            before = self.letters.setdefault(box.id, "")
            self.kinds[box.id] = box.kind
            window = _window(frame.grid, box.footprint, EXCLUDED_MARGIN)
            x, y = (axis[window] for axis in frame.grid.mesh())
            sight = _sight(frame, box, window, inside(box.footprint, x, y, REGION_MARGIN))
            self.letters[box.id] += "." if not sight.visible else "x" if sight.velocity is None else "o"
            if sight.visible and sight.velocity is None:
                self.causes[self._cause(frame, box, before)] += 1

    @staticmethod
    def _cause(frame: OccupancyFrame, box: Annotation, before: str) -> str:
        sights = len(before.replace(".", ""))
        if sights < 3:
            return f"scan {sights + 1} in which it is seen"
        if "o" in before:
            return "found before"
        assert frame.observation is not None
        hit = np.flatnonzero(frame.observation > HIT)
        rows, columns = np.divmod(hit, frame.grid.columns)
        x, y = frame.grid.x0 + columns * frame.grid.spacing, frame.grid.y0 + rows * frame.grid.spacing
        own, near = inside(box.footprint, x, y, REGION_MARGIN), inside(box.footprint, x, y, NEAR)
        start, members = components(hit, columns, frame.grid.columns, 1)
        for root in range(len(hit)):
            part = members[start[root] : start[root + 1]]
            if own[part].sum() >= MIN_HITS and not near[part].all():
                return "one component with something else"
        return "scans 4 and 5" if sights < 5 else "later"

    def report(self) -> None:
        text = "".join(self.letters.values())
        frames, missed = text.count("o") + text.count("x"), text.count("x")
        for name, letters in self.letters.items():
            print(f"{self.kinds[name]} {name}: {letters}")
        print(f"{missed} of {frames} frames of movers without a velocity, {100 * missed / max(frames, 1):.1f} %")
        for cause, count in self.causes.most_common():
            print(f"{100 * count / frames:.1f} %: {cause}")


def main() -> None:
    source: Any = roadbed.open(sys.argv[1] if len(sys.argv) > 1 else "sim:city?sensor=lux4&frames=75")
    movers, config = MoverFrames(), Config(seed=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    missed, false, right, begin = Counter[Any](), Counter[Any](), 0, None
    for index, result in enumerate(Pipeline(config).run(source)):
        frame, truth = result.occupancy, source.truth(index)
        assert frame is not None
        assert frame.observation is not None
        begin = frame.time if begin is None else begin
        boxes = _simulated(source, index, _T_grid_sensor(frame, result.ground))
        movers.add(frame, [box for box in boxes if box.moves and _in_grid(box, frame)])
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
    movers.report()


if __name__ == "__main__":
    main()
