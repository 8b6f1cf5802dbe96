# SPDX-License-Identifier: Apache-2.0
"""Dynamic occupancy: observation grid per sensor, fusion, the HSBOF particle filter, objects."""

from roadbed.occupancy.filter import OccupancyFilter

__all__ = ["OccupancyFilter"]
