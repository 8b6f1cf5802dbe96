# SPDX-License-Identifier: Apache-2.0
"""The prior of the last frame moved to this one, and the scan aligned to it."""
