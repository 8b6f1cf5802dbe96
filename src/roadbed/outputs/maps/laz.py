# SPDX-License-Identifier: Apache-2.0
"""Points of a map as LAZ, a tile at a time, to the millimetre."""

from pathlib import Path

import numpy as np

from roadbed.core.errors import needs_extra
from roadbed.io.atomic import atomic_write
from roadbed.mapping.cache import SIDE
from roadbed.mapping.reader import MapReader
from roadbed.mapping.tiles import GROUND
from roadbed.outputs.maps.geotiff import Georeference

_CLASS_GROUND, _CLASS_OTHER = 2, 1  # of the standard: ground, and not classified further


def write_laz(path: Path, stored: MapReader, kind: int, georeference: Georeference) -> int:
    """One point per voxel: the mean of its returns, with their mean intensity; returns how many there are."""
    with needs_extra("laspy", "io", f"writing {path}"):
        import laspy

    side = SIDE * stored.spacing
    (first_row, _), (first, _) = stored.points.block
    shift = np.array([georeference.easting, georeference.northing, georeference.height])
    header = laspy.LasHeader(point_format=0, version="1.2")
    header.scales = np.full(3, 0.001)
    header.offsets = np.floor(shift + side * np.array([first, first_row, 0]))
    keys = georeference.geo_keys()
    if keys:
        data = np.array(keys, "<u2").tobytes()
        header.vlrs.append(laspy.VLR("LASF_Projection", 34735, "GeoTIFF keys", data))
    written = 0
    with (
        atomic_write(path) as file,
        laspy.open(
            file, mode="w", header=header, do_compress=True, closefd=False, laz_backend=laspy.LazBackend.Lazrs
        ) as writer,
    ):
        for key, tile in stored.points:
            points, intensity, _ = tile.means(kind)
            if not len(points):
                continue
            record = laspy.ScaleAwarePointRecord.zeros(len(points), header=header)
            corner = shift + side * np.array([key[1], key[0], 0])
            record.x, record.y, record.z = (points + corner).T
            record.intensity = np.round(intensity).astype(np.uint16)
            record.classification = np.full(len(points), _CLASS_GROUND if kind == GROUND else _CLASS_OTHER, np.uint8)
            writer.write_points(record)
            written += len(points)
    return written
