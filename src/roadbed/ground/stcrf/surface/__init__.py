# SPDX-License-Identifier: Apache-2.0
"""The surface as it is reported: elevation, slope, variance."""
