# SPDX-License-Identifier: Apache-2.0
"""Points to masses of cells: the inverse sensor model."""
