# SPDX-License-Identifier: Apache-2.0
"""Every device program of the package, for tests that build them all."""

from roadbed.config import Config
from roadbed.config.ground import VarianceConfig
from roadbed.ground.ego import ego_mask_device
from roadbed.ground.stcrf.programs import coarse_program, fine_program
from roadbed.ground.variance import model as variance
from roadbed.ground.visibility import model as visibility
from roadbed.occupancy.fusion.program import FUSE
from roadbed.occupancy.hsbof.program import filter_program
from roadbed.occupancy.observation.program import OBSERVE
from roadbed.occupancy.registration.program import register_program
from roadbed.runtime import primitives

PROGRAMS = {
    "collective": primitives.PROGRAM,
    "stcrf paper": fine_program(Config.preset("paper")),
    "stcrf default": fine_program(Config.preset("default")),
    "stcrf coarse": coarse_program(Config.preset("default")),
    "ego mask": ego_mask_device.program(Config().vehicle),
    "visibility": visibility.program(visibility.VisibilityModel()),
    "variance": variance.program(VarianceConfig()),
    "occupancy observation": OBSERVE,
    "occupancy fusion": FUSE,
    "occupancy registration": register_program(),
    "occupancy filter": filter_program(),
}
