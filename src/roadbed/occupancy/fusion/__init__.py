# SPDX-License-Identifier: Apache-2.0
"""Observations of several sensors fused into one grid."""
