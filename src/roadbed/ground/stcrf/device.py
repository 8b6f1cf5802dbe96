# SPDX-License-Identifier: Apache-2.0
"""The STCRF's engine on an accelerator: a recorded sequence of kernels per kind of frame, for one or several scans."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from roadbed.config import Config
from roadbed.core.device_arrays import DeviceArray, DeviceGround
from roadbed.core.errors import InputError
from roadbed.core.geometry import Float32
from roadbed.core.timing import timed
from roadbed.ground.ego.ego_mask_device import EgoMaskDevice
from roadbed.ground.engine import (
    EgoQuery,
    FrameInput,
    FrameOutput,
    Misalignment,
    MovingMask,
    Outputs,
    Rolled,
    SensorViews,
    Turned,
    Unaligned,
)  # fmt: skip
from roadbed.ground.stcrf import model
from roadbed.ground.stcrf.buffers import Buffers
from roadbed.ground.stcrf.command_graphs import CommandGraphs
from roadbed.ground.stcrf.motion.motion_cpu import planes_of
from roadbed.ground.stcrf.sizes import alignment_stride, lattice_of
from roadbed.ground.visibility.device import VisibilityDevice
from roadbed.ground.visibility.model import VisibilityModel
from roadbed.runtime import primitives
from roadbed.runtime.argument_struct import ArgumentStruct
from roadbed.runtime.backend import Backend
from roadbed.runtime.graph_cache import GraphCache
from roadbed.runtime.graphs import CommandGraph

_OPTIONAL = {  # outputs beside the labels: the field that asks for each, and its bit
    "probability": ("ground_probability", model.PROBABILITY),
    "height": ("height_above_ground", model.HEIGHT),
    "layers": ("surface", model.LAYERS),
}


class StcrfDevice:
    """`roadbed.ground.engine.GroundEngine` on one device; with `slots`, that many scans are computed at a time."""

    def __init__(
        self,
        backend: Backend,
        config: Config,
        slots: int = 1,
        outputs: Outputs = "host",
        fields: Collection[str] | None = None,
    ) -> None:
        self.backend, self.config, self.slots = backend, config.ground, slots
        self._returns_device_arrays = outputs == "device"  # results are arrays there, new ones for every frame
        self.lattice = lattice_of(config.ground)
        chosen = [name for name, (field, _) in _OPTIONAL.items() if fields is None or field in fields]
        self._fetched = ("label", *chosen)  # outputs that are copied to the host
        self._buffers = Buffers(backend, config, slots, device_resident=outputs == "both")
        self._graphs = CommandGraphs(backend, config, self._buffers)
        argument_struct = ArgumentStruct(model.FRAME, slots)
        self._frames, self._records = argument_struct.array, argument_struct.records
        computed = chosen if outputs == "host" else _OPTIONAL  # a next stage reads all of them on the device
        self._frames["wanted"] = sum(_OPTIONAL[name][1] for name in computed)
        self._unaligned = argument_struct.array["unaligned"][0]
        self._poses = list(zip(argument_struct.array["rotation"], argument_struct.array["translation"]))
        self._frames["has_isolated"] = config.ground.uses("isolated_returns")
        self._kept = self._to_move = False
        self._carries = False  # the prior has a plane for every node, known or not
        self._masks: tuple | None = None  # from where to where a mask is copied, and the graph that does it,
        self._mask_taken: tuple[CommandGraph, ...] = ()  # to be run before the next frame's
        self._visibility = VisibilityDevice(backend, VisibilityModel(), self._buffers)
        self._looks = False  # the occlusion filter has to run before the next frame,
        self._ego = EgoMaskDevice(backend, config.vehicle, self._buffers, argument_struct)
        self._asks = False  # and the ego mask
        self._graph_cache = GraphCache(backend)
        self._placed = backend.event()  # it is known how the scan lies on the prior, and what that knows of it
        self._timings: dict[str, float] = {}
        self._started_warm = self._pose_known = False
        self._left_on_device: DeviceGround | None = None  # what the last frame left here

    def frame(self, given: FrameInput) -> FrameOutput:
        self.start(given)
        output = self.output(given)
        self.complete(output.timings)
        return output

    def start(self, given: FrameInput, unaligned: Unaligned | None = None) -> None:
        self._timings, self._started_warm, self._pose_known = {}, given.warm, False
        with timed(self._timings, "upload"):
            self._describe(given, 0)
            if unaligned is not None:
                self._describe_alignment(unaligned)
        with timed(self._timings, "queue"):
            self._queue(given.warm, unaligned is not None)

    def misalignment(self) -> Misalignment | None:
        with timed(self._timings, "align"):
            self._wait_for_pose()
        lift, slope_x, slope_y, share, known, fits = self._buffers.fit.host[0].tolist()
        return Misalignment(lift, slope_x, slope_y, share, bool(fits)) if known else None

    def output(self, given: FrameInput) -> FrameOutput:
        if self.slots == 1 and not self._returns_device_arrays:
            self._buffers.allocate_outputs(self._fetched)  # of the next frame, while the device computes this one
        with timed(self._timings, "place"):
            few = given.warm and self.config.stcrf.warm_iterations < self.config.stcrf.iterations
            queried = isinstance(given.exclude.ego, EgoQuery)
            if few or queried:
                self._wait_for_pose()
            if self._started_warm and not given.warm:  # the scan does not fit the prior
                self.backend.finish()  # before the memory of the outputs that it writes is handed back
                self._queue(warm=False)
            elif few:
                unknown, known = self._buffers.overlap.host[0].tolist()
                if known < model.ENOUGH_PRIOR * max(1, known + unknown):  # few iterations are not enough
                    self._graph_cache.run(*self._graphs.of_frame(True, self._carries, few_iterations=False))
            output = self._output(0, self._timings, self._left())
            if queried:
                self._ego.answer(output.ego)
            self._queue_fetch(0)
        return output

    def _wait_for_pose(self) -> None:
        """Until the host can read the alignment, the overlap with the prior and the ego mask."""
        if not self._pose_known:
            self._placed.wait()
            self._pose_known = True

    def complete(self, timings: dict[str, float]) -> None:
        with timed(timings, "device"):
            self.backend.finish()

    def _left(self) -> DeviceGround | None:
        """What lies here after a frame, for kernels of the next stage; None where not all of it was computed."""
        if self._frames["wanted"][0] & (model.HEIGHT | model.LAYERS) != model.HEIGHT | model.LAYERS:
            return None
        b, record = self._buffers, self._records[0]
        self._left_on_device = DeviceGround(
            self.backend,
            DeviceArray(b.input_buffer, record.points, record.count),
            DeviceArray(b.height.buffer, b.height.addresses[0], record.count),
            DeviceArray(b.layers.buffer, b.layers.addresses[0], self.lattice.size),
        )
        return self._left_on_device

    def queue(self, given: Sequence[FrameInput]) -> None:
        """Start computing scans that stand alone, one per slot; `collect` waits for them."""
        self._reserve(max(int(one.points.shape[0]) for one in given))
        for slot, one in enumerate(given):
            self._describe(one, slot)
        self._frames["count"][len(given) :] = 0
        self._queue(warm=False)

    def collect(self, scans: int) -> list[FrameOutput]:
        """The results of the first so many slots."""
        for slot in range(scans):
            self._queue_fetch(slot)
        self.backend.finish()
        return [self._output(slot, {}) for slot in range(scans)]

    def profile(self, given: FrameInput) -> dict[str, float]:
        self._describe(given, 0)
        graphs = *self._enqueue_arguments(given.warm), *self._graphs.of_frame(given.warm, self._carries)
        return {phase: seconds for graph in graphs for phase, seconds in graph.timed().items()}

    def keep(self) -> None:
        """The posterior becomes the prior of the next frame, where the ground was seen if only that is asked for."""
        self._kept = self._to_move = self._carries = True
        self._stay()

    def forget(self) -> None:
        self.prior = np.zeros((9, *self.lattice.shape), np.float32)

    def move(self, motion: Rolled | Turned) -> None:
        """Carried out before the next frame, in one pass with keeping the posterior."""
        frames = self._frames
        if isinstance(motion, Turned):
            frames["motion"], self._carries = model.TURNING, False
            frames["turn"], frames["travel"] = motion.T_old_new.rotation.ravel(), motion.T_old_new.translation
            frames["node_x"], frames["node_y"] = motion.x0, motion.y0
        else:
            frames["motion"] = model.ROLLING
            frames["shift_columns"], frames["shift_rows"], frames["lower"] = motion.columns, motion.rows, motion.climb
        self._to_move = True

    @property
    def prior(self) -> Float32:
        if moved := self._moved():
            self.backend.enqueue(self._frames, self._buffers.frames)
            self._stay()
            moved[0].run()
        nodes = self.lattice.size
        state = self.backend.download(self._buffers.priors, 12 * nodes * int(self._frames["prior"][0]), 12 * nodes)
        return np.ascontiguousarray(state.reshape(nodes, 12)[:, :9].T).reshape(9, *self.lattice.shape)

    @prior.setter
    def prior(self, information: Float32) -> None:
        self._kept = self._to_move = self._carries = False
        self._stay()
        nodes = self.lattice.size
        planes = planes_of(information, model.HEIGHT_WEIGHT, model.SLOPE_WEIGHT)
        state = np.concatenate([information.reshape(9, nodes), planes.reshape(3, nodes)]).T
        start = 12 * nodes * int(self._frames["prior"][0])
        self.backend.upload(np.ascontiguousarray(state, np.float32), self._buffers.priors, start)

    def _stay(self) -> None:
        for record in self._records:
            record.motion = record.shift_columns = record.shift_rows = record.lower = 0

    def _moved(self) -> tuple[CommandGraph, ...]:
        """What carries out that was asked since the last frame: one graph or none, to be run once frames are posted."""
        if not self._to_move:
            return ()
        for record in self._records:
            record.prior_from, record.prior = model.POSTERIOR if self._kept else record.prior, 1 - record.prior
        self._kept = self._to_move = False
        return (self._graphs.motion,)

    def _reserve(self, points: int) -> None:
        """Room for scans of so many points."""
        if self._buffers.reserve(points):
            self._record()

    def _record(self) -> None:
        self._graphs.record()
        self._graph_cache.clear()

    def _describe(self, given: FrameInput, slot: int) -> None:
        """Make a scan readable by the kernels: its points, which of them stand or move, and where it lies."""
        if self._left_on_device is not None:
            self._left_on_device.current = False
        points = given.points
        if points.ndim != 2 or points.shape[1] != 3:
            raise InputError(f"points: expected shape (N, 3), found {tuple(points.shape)}")
        self._reserve(int(points.shape[0]))
        record, placement, vehicle = self._records[slot], given.placement, given.vehicle
        record.count, record.base, record.road = int(points.shape[0]), placement.base, given.road
        record.sensors, record.rise = len(given.origins), given.rise
        origins = given.origins[: model.MOST_ORIGINS]
        self._frames["origins"][slot, : len(origins)] = origins
        record.lift_variance, record.slope_x_variance, record.slope_y_variance = given.pose_variance
        rotation, translation = self._poses[slot]
        rotation[:], translation[:] = placement.rotation.ravel(), placement.translation
        record.given = self.backend.bind(points, self._buffers.input_buffer, 3 * slot * self._buffers.capacity)
        record.points = record.given
        self._asks = isinstance(given.exclude.ego, EgoQuery)
        if isinstance(given.exclude.ego, EgoQuery):
            self._ego.ask(given.exclude.ego)
        self._describe_non_ground(record, given.exclude.non_ground, slot)
        record.vehicle_x, record.vehicle_y = vehicle.x, vehicle.y
        self._describe_moving(record, given.moving, slot)

    def _describe_non_ground(self, record: Any, excluded: Any, slot: int) -> None:
        """The points that cannot be ground: found on the device before the frame, or given as a mask."""
        record.has_non_ground = excluded is not None
        if isinstance(excluded, SensorViews):
            self._visibility.set_views(excluded, slot)
            self._looks = True
        elif excluded is not None:
            mask, start = excluded.view(np.uint8), slot * self._buffers.capacity
            self.backend.upload(mask, self._buffers.non_ground, start)

    def _describe_alignment(self, unaligned: Unaligned) -> None:
        """How the scan of slot 0 is aligned with the prior surface."""
        record = self._records[0]
        record.stride, record.reach = alignment_stride(record.count), model.ALIGNMENT_RADIUS
        left = np.array((*unaligned, model.ALIGNMENT_TRUST))
        for part in self._unaligned:
            part[:] = left
            left -= part

    def _describe_moving(self, record: Any, moving: MovingMask | None, slot: int) -> None:
        record.moving_columns = record.moving_rows = 0
        if moving is None or not all(moving.shape):
            return
        words = -(-moving.shape[0] * moving.shape[1] // 4)  # masks on a device are filled up to whole words
        if self._buffers.reserve_mask(4 * words):
            self._record()
        if isinstance(moving.mask, DeviceArray):
            self._take_mask(moving.mask, words)
        else:
            self.backend.upload(moving.mask.view(np.uint8), self._buffers.moving, slot * self._buffers.moving_capacity)
        record.moving_rows, record.moving_columns = moving.shape
        record.moving_x, record.moving_y = moving.corner
        record.moving_scale = 1 / moving.spacing

    def _take_mask(self, mask: DeviceArray, words: int) -> None:
        """A mask that another stage left on the device is copied with the frame, for the only slot of a drive."""
        pair = (mask.buffer, self._buffers.moving)
        if self._masks is None or any(a is not b for a, b in zip(self._masks[0], pair)):
            graph = self.backend.graph(primitives.build(self.backend), [primitives.copy(*pair, words)])
            self._masks = pair, graph
        self._mask_taken = (self._masks[1],)

    def _enqueue_arguments(self, warm: bool) -> tuple[CommandGraph, ...]:
        """Describe the frame to its kernels; the graphs that have to be run before theirs."""
        ego = (self._ego.graph,) if self._asks else ()
        visibility = (self._visibility.graph,) if self._looks else ()
        before = (*self._moved(), *self._mask_taken, *ego, *visibility)
        self._mask_taken, self._looks, self._asks = (), False, False
        buffers = self._buffers
        if self._returns_device_arrays:
            buffers.renew_outputs()
        elif self.slots == 1:
            buffers.take_outputs(self._fetched)
        label, probability, height, layers = (output.addresses for output in buffers.outputs())
        carried = self._carries and self.config.uses("coarse_start")
        for k, record in enumerate(self._records):
            record.warm, record.label, record.probability = warm + (warm and carried), label[k], probability[k]
            record.height, record.layers = height[k], layers[k]
        self.backend.enqueue(self._frames, buffers.frames)
        self._stay()
        return before

    def _queue(self, warm: bool, aligned: bool = False) -> None:
        """A frame with what comes before it; what the host waits for is recorded as placed long before it has ended."""
        asks = self._asks
        before, (sort, rest) = self._enqueue_arguments(warm), self._graphs.of_frame(warm, self._carries)
        if not (warm or asks):
            self._graph_cache.run(*before, sort, rest)
            return
        self._graph_cache.run(*before, *((self._graphs.alignment,) if aligned else ()), sort)
        if warm:
            self.backend.fetch(self._buffers.overlap, 0, 2)
        if aligned:
            self.backend.fetch(self._buffers.fit, 0, 6)
        if asks:
            self._ego.fetch()
        self._placed.record()
        self._graph_cache.run(rest)

    def _queue_fetch(self, slot: int) -> None:
        """Queue the copies to the host."""
        for name in self._fetched:
            count = 5 * self.lattice.size if name == "layers" else self._records[slot].count
            self.backend.fetch(getattr(self._buffers, name), slot, count)

    def _output(self, slot: int, timings: dict[str, float], device: DeviceGround | None = None) -> FrameOutput:
        """What was fetched, in arrays of the caller's own, or the arrays on the device; empty where not fetched."""
        buffers, count = self._buffers, self._records[slot].count
        return FrameOutput(
            self._given(buffers.label.host[slot, :count]),
            self._given(buffers.probability.host[slot, : count if "probability" in self._fetched else 0]),
            self._given(buffers.height.host[slot, : count if "height" in self._fetched else 0]),
            *self._surface(slot),
            timings=timings,
            device=device,
        )

    def _surface(self, slot: int) -> tuple[Float32, Float32, Float32, Float32]:
        nodes, shape = self.lattice.size, self.lattice.shape
        if "layers" not in self._fetched:
            nodes, shape = 0, (0, 0)
        layers = self._given(self._buffers.layers.host[slot].reshape(-1)[: 5 * nodes])
        elevation, slope = layers[:nodes].reshape(shape), layers[nodes : 3 * nodes].reshape(*shape, 2)
        own, variance = layers[3 * nodes :].reshape(2, *shape)
        return elevation, slope, variance, own

    def _given(self, array: Any) -> Any:
        return array if self._returns_device_arrays or self.slots == 1 else array.copy()
