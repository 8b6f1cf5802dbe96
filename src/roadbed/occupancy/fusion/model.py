# SPDX-License-Identifier: Apache-2.0
"""Constants of the fusion that CPU and device kernels share."""

LINEAR, INDEPENDENT, LOGARITHMIC, DEMPSTER = range(4)
LEAST_TOTAL = 1e-3  # weight of all sensors together under which a cell stays at 0.5
FULL_CONFLICT = 0.9  # beyond this Dempster's rule is not normalised: the conflict becomes ignorance
