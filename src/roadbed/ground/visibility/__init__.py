# SPDX-License-Identifier: Apache-2.0
"""The ground is opaque: which points of a scan that is not dense cannot be ground, on the CPU and on devices."""
