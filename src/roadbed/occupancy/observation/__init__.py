# SPDX-License-Identifier: Apache-2.0
"""Points to an observation grid: the inverse sensor model."""
