# SPDX-License-Identifier: Apache-2.0
"""Maps as files that other programs open, written tile by tile."""
