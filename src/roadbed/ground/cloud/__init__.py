# SPDX-License-Identifier: Apache-2.0
"""Clouds without a sensor origin: maps, aerial tiles, plots and phone scans."""
