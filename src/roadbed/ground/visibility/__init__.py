# SPDX-License-Identifier: Apache-2.0
"""Occlusion filter: points of sparse scans that cannot be ground, because a beam passed beneath them or they rise."""
