# SPDX-License-Identifier: Apache-2.0
"""The hybrid sampling Bayesian occupancy filter: cells and particles."""
