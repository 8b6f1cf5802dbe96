# SPDX-License-Identifier: Apache-2.0
"""Why a point got its label: the values of the last frame, and the rules without which the label would be another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

from roadbed.config import Config
from roadbed.config.ground import GroundRule
from roadbed.core.errors import DeviceError, InputError
from roadbed.core.frames import GroundFrame, Label
from roadbed.runtime.cpu_backend import CpuBackend

if TYPE_CHECKING:
    from roadbed.ground.filter import GroundFilter
    from roadbed.ground.stcrf.cpu import StcrfCpu

# Rules about labels; the others shape the surface, which an explanation takes as it is.
LABEL_RULES: tuple[GroundRule, ...] = get_args(GroundRule)[get_args(GroundRule).index("smooth") :]

_OTHER_FRAME = InputError("explain: found a frame of another scan or filter, expected the last one of this filter")


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The label of one point, the rule behind it and the values that the rule used."""

    index: int  # of the point in the scan
    label: Label
    rule: str  # names for `ground.without`; "height": none of them; else why the point has no label
    without: Mapping[str, Label] = field(default_factory=dict)  # the label without each of the rules that decide
    values: Mapping[str, Any] = field(default_factory=dict)  # in m where the name says nothing else


def explain(ground: GroundFilter, frame: GroundFrame, index: int) -> Explanation:
    """Why point `index` of the filter's last frame has its label. CPU only: other backends give the same labels."""
    if not isinstance(ground.backend, CpuBackend):
        raise DeviceError(f"explain: found the backend {ground.config.backend}, expected cpu: labels are the same")
    if frame.scan is None or not 0 <= index < len(frame.label):
        raise InputError(f"explain: found point {index}, expected 0 to {len(frame.label) - 1}")
    about: dict[str, Any] = {"index": index, "label": Label(frame.label[index])}
    if frame.ego_mask is not None and frame.ego_mask[index]:
        return Explanation(**about, rule="on the ego vehicle")
    point = frame.scan.points[index]
    if not np.isfinite(point).all() or not point.any():
        return Explanation(**about, rule="missing return: not finite, or zero")
    if frame.label[index] == Label.UNKNOWN:
        return Explanation(**about, rule="outside the grid")
    values = {
        "height_above_ground_m": float(frame.height_above_ground[index]),
        "ground_probability": float(frame.ground_probability[index]),
    }
    if frame.cells is not None:
        return _of_cell(frame, ground.config, about, values)
    if not frame.has_origin:
        return Explanation(**about, rule="not traced: a cloud without a sensor is labelled in tiles", values=values)
    engine = cast("StcrfCpu", cast(Any, ground._method).engine)
    return _of_node(_LastFrame(engine, frame), ground.config, index, about, values)


def _of_cell(frame: GroundFrame, config: Config, about: dict[str, Any], values: dict[str, Any]) -> Explanation:
    """With the method "variance": a cell is ground by its variance, a point of it by its distance from the mean."""
    cells, limits = frame.cells, config.ground.variance
    assert cells is not None
    assert frame.scan is not None
    x, y = frame.scan.points[about["index"], :2].astype(np.float64)
    row, column = np.unravel_index(int(cells.grid.index(np.array([x]), np.array([y]))[0]), cells.grid.shape)
    few = cells.count[row, column] < limits.point_number_threshold
    rule = f"{'mean variance of the cells around' if few else 'variance of the cell'} not below min_variance_threshold"
    if cells.ground[row, column]:
        within = "within" if about["label"] == Label.GROUND else "not within"
        rule = f"{rule.replace('not below', 'below')}, point {within} height_threshold.ground of its mean"
    values |= {
        "cell_points": int(cells.count[row, column]),
        "cell_mean_m": float(cells.mean[row, column]),
        "cell_variance_m2": float(cells.variance[row, column]),
        "min_variance_threshold_m2": limits.min_variance_threshold,
        "height_threshold_m": limits.height_threshold.ground,
    }
    return Explanation(**about, rule=rule, values=values)


class _LastFrame:
    """The buffers of the CPU engine after a frame, which its labelling kernel can read once more."""

    def __init__(self, engine: StcrfCpu, frame: GroundFrame) -> None:
        from roadbed.ground.stcrf.arrays import SortedPoints

        self._engine, self.frame = engine, frame
        if len(engine._started.points) != len(frame.label):  # its buffers are those of other points
            raise _OTHER_FRAME
        arrays = engine._start, *engine._sorted, engine._pillar, engine._mark, engine._runs, engine._active_nodes_before
        self.points, self.table = SortedPoints(*arrays), frame.mounting.table

    def labels(self, config: Config, unmarked: int | None = None) -> NDArray[np.uint8]:
        """Labels of all points with the rules of `config` over the same surface; `unmarked`: without its mark."""
        from roadbed.ground.stcrf.arrays import Outputs
        from roadbed.ground.stcrf.rules import LabelRules

        engine, points, n = self._engine, self.points, len(self.frame.label)
        if unmarked is not None:
            marks = points.mark.copy()
            marks[unmarked] = 0
            points = points._replace(mark=marks)
        out = Outputs(np.empty(n, np.uint8), *np.empty((2, n), np.float32))
        before = engine._active_nodes, engine._active_nodes_before, engine._rules
        engine._rules = LabelRules.of(config)
        try:
            engine._label(points, out)
        finally:
            engine._active_nodes, engine._active_nodes_before, engine._rules = before
        return out.label

    def sorted_index(self, index: int) -> tuple[int, int]:
        """A point's position in node order, and its node."""
        from roadbed.ground.stcrf.points.sort_cpu import BLOCK

        runs = self.points.runs
        run = int(runs.of_block[index // BLOCK])
        while runs.first[run + 1] <= index:
            run += 1
        return int(runs.position[run]) + index - int(runs.first[run]), int(runs.node[run])

    def values(self, k: int, node: int) -> dict[str, Any]:
        """Of the node and the pillar under a point."""
        from roadbed.ground.stcrf import model
        from roadbed.ground.stcrf.points.select_cpu import PILLAR

        engine, rules = self._engine, self._engine._rules
        row, column = divmod(node, engine._fine.shape.columns)
        classes = {
            name: getattr(model, name.upper()) for name in ("smooth", "open", "foot_by_ratio", "foot_by_support")
        }
        edges = (model.FOOT, rules.threshold, rules.clear_threshold, rules.highest, model.TOP, model.STRUCTURE_TOP)
        found = {
            "surface_sigma_m": float(np.sqrt(self.frame.variance[row, column])),
            "effective_points": float(engine._fine.posterior[row + 1, 0, column + 1]),
        }
        if not rules.around:
            return found | {"limit_m": float(rules.threshold)}
        node_class, slot = engine._node_classes[node], engine._band_slot[node]
        counts = engine._bands[slot, int(self.points.pillar[k] & PILLAR)] if slot else None
        smooth = rules.smooth and node_class & model.SMOOTH
        return found | {
            "node_classes": [name for name, bit in classes.items() if node_class & bit],
            "limit_m": float(rules.smooth_threshold if smooth else rules.highest),
            "pillar_returns_by_height_m": {
                f"{low:.2f}-{high:.2f}": 0 if counts is None else int(counts[i])
                for i, (low, high) in enumerate(pairwise(edges))
            },
        }


def _of_node(
    last: _LastFrame, config: Config, index: int, about: dict[str, Any], values: dict[str, Any]
) -> Explanation:
    from roadbed.ground.stcrf.model import ISOLATED, NON_GROUND

    label, used = about["label"], [rule for rule in LABEL_RULES if config.ground.uses(rule)]
    k, node = last.sorted_index(index)
    without: dict[str, Label] = {}
    above = "level of the table" if last.table else "visibility"
    for bit, rule in ((NON_GROUND, above), (ISOLATED, "isolated_returns")):
        if last.points.mark[k] & bit:
            without[rule] = Label(last.labels(config, unmarked=k)[index])
    without |= {rule: Label(last.labels(_less(config, [rule]))[index]) for rule in used}
    decide = {rule: other for rule, other in without.items() if other != label}
    name = ", ".join(decide)
    if not decide and last.labels(_less(config, used))[index] == label:
        name = "height"
    elif not decide:  # several rules, each of which is enough
        alone = [rule for rule in used if last.labels(_less(config, {*used} - {rule}))[index] == label]
        name = " or ".join(alone) or "several rules together"
    if not np.array_equal(last.labels(config), last.frame.label):  # and the engine's buffers are as they were
        raise _OTHER_FRAME
    return Explanation(**about, rule=name, without=decide, values=values | last.values(k, node))


def _less(config: Config, rules: Iterable[GroundRule]) -> Config:
    return config.with_changes(ground={"without": sorted({*config.ground.without, *rules})})
