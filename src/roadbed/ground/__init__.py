# SPDX-License-Identifier: Apache-2.0
"""The ground: labels per point and the surface as a lattice, by the STCRF or by grid variance."""

from roadbed.ground.filter import GroundFilter

__all__ = ["GroundFilter"]
