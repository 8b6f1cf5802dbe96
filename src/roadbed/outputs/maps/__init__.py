# SPDX-License-Identifier: Apache-2.0
"""Maps as files that other programs open, written tile by tile."""

from roadbed.outputs.maps.export import PRODUCTS, export_map
from roadbed.outputs.maps.geotiff import Georeference

__all__ = ["PRODUCTS", "Georeference", "export_map"]
