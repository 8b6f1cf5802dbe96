# SPDX-License-Identifier: Apache-2.0
"""The filter on accelerators against the CPU's: every step of it, cell by cell and particle by particle, bit by bit."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.hsbof_state import HsbofState
from benchmarks.occupancy import SubDevice
from roadbed.config import Config
from roadbed.core.errors import DeviceError
from roadbed.occupancy.arrays import Observation
from roadbed.occupancy.engine import GridMotion
from roadbed.occupancy.hsbof.buffers import bytes_needed
from roadbed.occupancy.hsbof.filter import Hsbof
from roadbed.occupancy.hsbof.model import FilterModel
from roadbed.occupancy.hsbof.program import PARTICLE
from roadbed.occupancy.registration.register import Registration
from roadbed.runtime import opencl_devices
from roadbed.runtime.opencl import OpenclBackend
from tests.conftest import require
from tests.devices import ACCELERATORS, accelerator
from tests.occupancy.engines import HsbofOnDevice
from tests.occupancy.models import NO_CHANCE, changed, filter_model
from tests.occupancy.scenes import crowd, grid_of_boxes

SHAPE, SPACING = (40, 56), 0.25


@pytest.fixture(scope="module", params=ACCELERATORS)
def backend(request):
    return accelerator(request.param)


def random_state(filter_, rng):
    """Masses that sum to less than one, half of the particles in use, some of them about to leave the grid."""
    shares = rng.dirichlet([1, 0.5, 1, 0.5], SHAPE).astype(np.float32)
    layers = np.concatenate([np.moveaxis(shares[..., :3], -1, 0), rng.uniform(0, 3, (2, *SHAPE)).astype(np.float32)])
    filter_.layers[:] = layers
    p, count = filter_.particles, filter_.particles.capacity // 2
    p.count = count
    extent = SPACING * np.array(SHAPE[::-1], np.float32)
    p.arrays.x[:count], p.arrays.y[:count] = (rng.uniform(0, 1, (count, 2)) ** 2 * extent).T
    p.arrays.vx[:count], p.arrays.vy[:count] = rng.normal(0, 5, (2, count))
    p.arrays.mass[:count] = rng.uniform(0, 0.2, count)
    p.arrays.tested[:count] = rng.choice([0.0, 0.3, 1.0], count)


def random_observation(rng):
    hit = rng.random(SHAPE) < 0.3
    p = np.where(hit, rng.uniform(0.5, 0.95, SHAPE), rng.uniform(0.05, 0.5, SHAPE))
    seen = np.where(rng.random(SHAPE) < 0.2, 0, rng.random(SHAPE))
    surface = np.where(hit & (rng.random(SHAPE) < 0.7), rng.integers(0, 2**16, SHAPE), 0)
    return Observation(p.astype(np.float32), seen.astype(np.float32), surface.astype(np.uint16))


def turn(angle):
    rotation = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    middle = SPACING * np.array(SHAPE[::-1]) / 2
    return GridMotion(rotation, middle - rotation @ middle + [0.31, -0.17], None)


def same(found, expected, what):
    expected = np.asarray(expected)
    differ = np.count_nonzero(np.asarray(found).reshape(expected.shape).view(np.uint8) != expected.view(np.uint8))
    assert differ == 0, f"{what}: {differ} bytes differ"


def same_particles(found, cells, expected, count, what, fields=PARTICLE.names):
    same(cells[:count], expected.cell[:count], f"{what}: cells")
    for name in fields:
        same(found[name][:count].copy(), getattr(expected, name)[:count], f"{what}: {name}")


def same_crowd(device, cpu):
    for name, found, expected in zip(crowd(cpu)._fields, crowd(device), crowd(cpu)):
        if name != "origin":  # written anew by every step
            same(found, expected, f"particles: {name}")


@pytest.mark.parametrize("motion", [GridMotion.rolled(3, -2, SPACING), turn(0.05)], ids=["rolled", "turned"])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_every_step_has_the_bits_of_the_cpus(backend, preset, motion):
    """From a random state; each kernel's output is compared where it lies on the device after two steps."""
    config = changed(FilterModel.of(Config.preset(preset).occupancy), particles=3000)
    rng = np.random.default_rng(1)
    cpu, device = Hsbof(SHAPE, SPACING, config, seed=5), HsbofOnDevice(backend, SHAPE, SPACING, config, seed=5)
    for filter_ in (cpu, device):
        random_state(filter_, np.random.default_rng(0))
    for _ in range(6):  # far enough for registration to have a scan to compare with
        observation = random_observation(rng)
        for filter_ in (cpu, device):
            filter_.step(observation, 0.1, motion, (6.0, 1.0))
    b, download = device.device._buffers, backend.download
    size = cpu.moving.size
    same(download(b.prior, 0, 5 * size), cpu._prior, "propagate_priors")
    _, cells, order = b.sort.launches(b.cells, b.order, device.device.capacity)
    count = cpu._sorted.count
    same(download(order, 0, count), cpu._order[:count], "reorder")
    kept = ("x", "y", "vx", "vy", "mass", "tested", "origin")
    sorted_ = device.device.particles_in(b.sorted, count)
    same_particles(sorted_, download(cells, 0, count), cpu._sorted.arrays, count, "update_measurement", kept)
    same(download(b.birth, 0, size), cpu._birth, "newborn mass")
    for name, found, expected in zip(cpu.velocities._fields, device.velocities, cpu.velocities):
        same(found, expected, f"estimate_velocities: {name}")
    same(device.moving, cpu.moving, "drop_lone_cells")
    born, births = cpu._born, cpu._born.count
    assert births > 0
    found = device.device.particles_in(b.born, births)
    placed = ("x", "y", "vx", "vy", "mass")
    same_particles(found, download(b.born_cells, 0, births), born.arrays, births, "give_birth", placed)
    drawn = cpu.particles.count
    same(download(b.source, 0, drawn), cpu._source[:drawn], "resample")
    assert device.particles.count == drawn
    same_crowd(device, cpu)
    same(device.layers, cpu.layers, "masses")
    assert device.mass_without_particles == pytest.approx(cpu.mass_without_particles, rel=1e-5)
    assert np.isfinite(cpu.velocities.mean).any()


def test_a_car_beside_a_wall_is_the_cpus_to_the_last_bit(backend):
    config = filter_model(4000)
    cpu, device = Hsbof((48, 96), 0.25, config), HsbofOnDevice(backend, (48, 96), 0.25, config)
    for k in range(40):
        observation = grid_of_boxes((48, 96), 0.25, [(4 + 0.4 * k, 6.0, 4.0, 1.75), (12, 10.0, 16, 0.5)])
        for filter_ in (cpu, device):
            filter_.step(observation, 0.1)
    same(device.layers, cpu.layers, "masses")
    same(device.velocities.mean, cpu.velocities.mean, "velocities")
    same_crowd(device, cpu)
    assert device.moving.any()


def test_the_order_of_sums_does_not_matter_when_one_cell_holds_every_particle(backend):
    """Thousands in one cell: the sort keeps their order, and the draw takes each as often as its mass asks for."""
    config = filter_model(5000, **NO_CHANCE)
    cpu, device = Hsbof((5, 5), 4.0, config), HsbofOnDevice(backend, (5, 5), 4.0, config)
    rng = np.random.default_rng(3)
    masses, speeds = rng.uniform(0, 2e-4, 5000), rng.normal(0, 0.1, (2, 5000))
    for filter_ in (cpu, device):
        p = filter_.particles
        p.count = 5000
        p.arrays.x[:], p.arrays.y[:], p.arrays.mass[:] = 9.0, 11.0, masses
        p.arrays.vx[:], p.arrays.vy[:] = speeds
        filter_.masses.dynamic[2, 2] = 0.5
        filter_.step(grid_of_boxes((5, 5), 4.0, [(10, 10, 4, 4)]), 0.1)
    same_crowd(device, cpu)


def test_results_do_not_depend_on_the_size_of_the_work_groups(backend):
    config = filter_model(2000)
    usual, tuned = (HsbofState(backend, SHAPE, SPACING, config, group=group) for group in (256, 64))
    rng, registration = np.random.default_rng(4), Registration(usual.cells, config.registration)
    for motion in (turn(0.4), GridMotion.rolled(-3, 5, SPACING), turn(-0.02), GridMotion()):
        observation = random_observation(rng)
        registered = registration(observation, 0.1, motion)
        for filter_ in (usual, tuned):
            filter_.upload(observation, registered)
            filter_.step(0.1, motion)
        same(tuned.layers, usual.layers, "masses")
        priors = (backend.download(filter_._buffers.prior, 0, 5 * usual.size) for filter_ in (tuned, usual))
        same(*priors, "priors")
    same(tuned.velocities.mean, usual.velocities.mean, "velocities")
    particles = [f.particles_in(f._buffers.particles, 2000).view(np.uint8) for f in (tuned, usual)]
    np.testing.assert_array_equal(*particles)


def test_a_part_of_an_opencl_device_gives_the_same():
    accelerator("opencl")
    divisible = [device for device in opencl_devices.devices() if device.kind == "cpu" and device.units > 1]
    require(bool(divisible), "no OpenCL device on a CPU with two compute units: those of GPUs cannot be divided")
    backend, part = OpenclBackend(divisible[0]), SubDevice(replace(divisible[0], units=1))
    assert part.device.units == 1
    whole, alone = (HsbofState(b, (12, 16), 0.5, filter_model(400)) for b in (backend, part))
    registration = Registration(whole.cells, whole.model.registration)
    for k in range(4):
        observation = grid_of_boxes((12, 16), 0.5, [(2 + 0.5 * k, 3, 1, 1)])
        registered = registration(observation, 0.1, GridMotion())
        for filter_ in (whole, alone):
            filter_.upload(observation, registered)
            filter_.step(0.1)
    same(alone.layers, whole.layers, "masses")
    with pytest.raises(DeviceError, match="no sub-device of 4096 compute units"):
        SubDevice(replace(divisible[0], units=4096))


def test_each_phase_is_timed_under_the_cpus_name(backend):
    filter_ = HsbofState(backend, (12, 16), 0.5, filter_model(400))
    cpu = Hsbof((12, 16), 0.5, filter_model(400))
    observation = grid_of_boxes((12, 16), 0.5, [(4, 3, 1, 1)])
    cpu.step(observation, 0.1)
    filter_.upload(observation, cpu._registration(observation, 0.1, GridMotion()))
    seconds = filter_.profile(0.1)
    assert list(seconds) == [name for name in cpu.timings if name != "register_hits"]
    assert min(seconds.values()) > 0


def test_a_grid_that_does_not_fit_is_refused_in_one_line_before_anything_is_allocated(backend, monkeypatch):
    monkeypatch.setattr(type(backend), "zeros", lambda *_: pytest.fail("memory was asked for"))
    with pytest.raises(DeviceError, match=r"needs [\d,]+ MiB, found [\d,]+ MiB") as caught:
        HsbofState(backend, (60_000, 60_000), 0.02, filter_model(1000))
    assert "3,600,000,000 cells" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_memory_that_is_asked_for_is_what_is_allocated(backend, monkeypatch):
    allocated = []
    zeros = type(backend).zeros

    def counted(self, shape, dtype):
        allocated.append(math.prod(np.atleast_1d(shape)) * np.dtype(dtype).itemsize)
        return zeros(self, shape, dtype)

    monkeypatch.setattr(type(backend), "zeros", counted)
    HsbofState(backend, (200, 300), 0.2, filter_model(20_000))
    assert sum(allocated) == pytest.approx(bytes_needed(60_000, 20_000, 2000), rel=0.1)
