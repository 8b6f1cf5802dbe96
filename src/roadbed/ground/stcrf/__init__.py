# SPDX-License-Identifier: Apache-2.0
"""Ground as a spatio-temporal conditional random field (Rummelhard et al. 2017)."""
