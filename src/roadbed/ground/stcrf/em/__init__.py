# SPDX-License-Identifier: Apache-2.0
"""The EM iterations on the lattice."""
