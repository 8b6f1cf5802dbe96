# SPDX-License-Identifier: Apache-2.0
"""The device program of the registration, and the record that describes one registration pass to its kernels."""

import numpy as np

from roadbed.occupancy.programs import GROUP, definitions, members_of
from roadbed.occupancy.registration import model
from roadbed.occupancy.registration.arrays import GridTransform
from roadbed.occupancy.registration.model import Pass, RegistrationRule
from roadbed.runtime.device import Device
from roadbed.runtime.program import Program

REGISTER_GROUP = 512  # work-items over the shifts of a component, of which a fast one has tens of thousands

REGISTRATION_PASS = np.dtype(
    [
        *members_of(GridTransform),  # to the older scan
        *members_of(GridTransform, "prior_"),  # to the grid whose maturity is given
        *members_of(RegistrationRule),
        ("now", np.int32),  # slots of both scans in the history
        ("old", np.int32),
        ("rolled", np.int32),  # the grid has moved by whole cells
        ("rows", np.int32),
        ("columns", np.int32),
        ("maturity", np.int32),  # first index of the maturity in the given layers
        ("most_components", np.int32),  # per scan
        ("slots", np.int32),  # for velocities and points: passes that run concurrently have their own
        ("slot", np.int32),  # this one's
    ],
    align=True,
)


def register_program(group: int = REGISTER_GROUP) -> Program:
    """The registration's kernels; `group` work-items try the shifts of a component in parallel."""
    files = (f"occupancy/registration/{name}.cl" for name in ("components", "shifts", "register", "refine"))
    return Program(
        ("runtime/components.cl", *files),
        {**definitions(model), "GROUP": GROUP, "REGISTER_GROUP": group, "PASSES": len(Pass)},
        {"RegistrationPass": REGISTRATION_PASS},
        exact=True,
    )


def register_group(device: Device) -> int:
    """Work-items of a group of the registration."""
    return 1 if device.lanes == 1 else min(REGISTER_GROUP, device.largest_group)
