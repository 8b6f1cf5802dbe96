# SPDX-License-Identifier: Apache-2.0
"""Moves the prior of the last frame to this one, and aligns the scan with it."""
