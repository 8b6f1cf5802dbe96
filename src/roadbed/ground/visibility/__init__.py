# SPDX-License-Identifier: Apache-2.0
"""Occlusion filter: finds points of sparse scans that cannot be ground, because a beam passed below or they rise."""
