# SPDX-License-Identifier: Apache-2.0
"""Mutations that no test can or need notice, each with the reason."""

from tests.mutate.mutation import Mutation

# Path, a part of the changed text, and why nothing turns red.
EXPLAINED = (
    ("outputs/ros_messages/clouds.py", "copy=True", "the same values, copied once more"),
    (
        "ground/stcrf/points/node_classes.cl",
        "node >= 1 &&",
        "compiled for CUDA alone; node 0 is a corner of the lattice",
    ),
    (
        "occupancy/registration/register.cl",
        "best = -count - 2",
        "a search starts alike from any number below the worst agreement",
    ),
    ("ground/stcrf/arrays.py", "3 * room", "longer rows of padding, which nothing reads"),
    ("simulate/solids.py", "lag != 1.0", "a short cut: without a lag the longer way gives the same ray"),
    ("simulate/cells.py", ">= 1:", "of two objects in one cell another one is named; which one is not promised"),
    ("simulate/ground_ray.py", "near < 1.0 or far", "a bound that is too careful: rays take longer and hit the same"),
    ("cli/bench.py", "tuple(rows[1])", "all rows have the same columns"),
    ("bench/ground.py", "points[chosen] - jitter", "noise has no sign"),
    ("ground/ego/ego_mask_device.py", "% _MOST_SCANS + 2", "any number that changes from scan to scan"),
    (
        "ground/stcrf/motion/grid_pose.py",
        "is not None or (columns",
        "without a step nothing leaves, without a map nothing is stored",
    ),
    ("occupancy/objects/clusters_cpu.py", "<= points.shape[1]:", "the same points in a new array, each time"),
    ("ground/stcrf/start/slope_start.cl", "ROWS + parts + 1", "longer parts of a column, which cover all its rows"),
    ("ground/visibility/directions_cpu.py", "done = 1", "one return is a sorted run, with which the next are merged"),
    ("kernels/tasks.py", "IntType(33)", "the value that sched_yield returns is not used"),
    ("warm_up/workload.py", '"rear": -2', "kernels are compiled for types, whatever the numbers"),
    ("warm_up/workload.py", "[1, -2, -1]", "kernels are compiled for types, whatever the numbers"),
    ("sources/formats/text_table.py", "np.arange(257)", "a byte is at most 255"),
    ("simulate/scenes/mountain.py", "70.0, 1.2, 0.6", "another made-up hillside"),
    ("outputs/report/comparison.py", "default=1", "of no pictures none is shown first"),
    ("outputs/maps/mesh.py", "3**31 - 1", "a mesh of 2,147,483,648 vertices is more than a test can make"),
)


def why_it_survives(mutation: Mutation) -> str | None:
    """The reason on record, if there is one."""
    for path, after, reason in EXPLAINED:
        if mutation.path == path and after in mutation.after:
            return reason
    return None
