# SPDX-License-Identifier: Apache-2.0
"""Which test files hold which part of the package: the longest beginning of a path that is named here decides."""

from __future__ import annotations

_OCCUPANCY = (
    "occupancy/test_cells.py", "occupancy/test_births.py", "occupancy/test_hsbof.py", "occupancy/test_engine.py",
    "occupancy/test_filter.py",
)  # fmt: skip
_GROUND = (
    "ground/test_em.py", "ground/test_label_rules.py", "ground/test_motion.py", "ground/test_alignment.py",
    "ground/test_drive.py", "ground/test_devices.py",
)  # fmt: skip
SUBJECTS = {
    "": ("test_frames.py", "test_pipeline.py", "cli"),
    "atomic.py": ("test_atomic.py",),
    "bench": ("cli/test_bench.py",),
    "cli": ("cli",),
    "cli/view.py": ("viewer", "cli"),
    "compute": ("compute", "ground/test_em.py", "ground/test_devices.py"),
    "compute/philox": ("compute/test_philox.py",),
    "config": ("config",),
    "errors.py": ("test_errors.py", "cli"),
    "evaluate": ("evaluate", "cli/test_evaluate.py"),
    "frames.py": ("test_frames.py", "test_pipeline.py"),
    "geometry.py": ("test_frames.py", "ground/test_motion.py", "sources/test_poses.py"),
    "ground": _GROUND,
    "ground/mounting": ("ground/test_mounting.py", "ground/test_mounting_fit.py"),
    "ground/stcrf/labels": ("ground/test_label_rules.py", "ground/test_devices.py"),
    "ground/stcrf/places": ("ground/test_label_rules.py", "ground/test_devices.py"),
    "ground/stcrf/vote": ("ground/test_label_rules.py", "ground/test_devices.py"),
    "ground/variance": ("ground/test_variance.py", "ground/test_devices.py"),
    "mapping": ("mapping",),
    "memory.py": ("occupancy/test_filter.py", "ground/test_inputs.py"),
    "occupancy": _OCCUPANCY,
    "occupancy/fuse": ("occupancy/test_fuse.py",),
    "occupancy/objects": ("occupancy/test_objects.py", "occupancy/test_filter.py"),
    "occupancy/observe": ("occupancy/test_observe.py",),
    "occupancy/placement.py": ("occupancy/test_filter_place.py", "occupancy/test_filter.py"),
    "outputs": ("outputs", "cli/test_output_folders.py"),
    "pipeline.py": ("test_pipeline.py",),
    "reading": ("reading", "sources/test_npy_reader.py", "sources/test_expansion.py"),
    "simulate": ("simulate",),
    "sources": ("sources",),
    "timeline.py": ("test_timeline.py", "ground/test_drive.py"),
    "timing.py": ("test_pipeline.py",),
    "viewer": ("viewer",),
}


def tests_of(path: str) -> tuple[str, ...]:
    """Test files and folders, under tests/, for a file of the package."""
    subject = max((name for name in SUBJECTS if path.startswith(name)), key=len)
    return SUBJECTS[subject]
