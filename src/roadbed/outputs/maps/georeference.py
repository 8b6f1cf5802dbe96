# SPDX-License-Identifier: Apache-2.0
"""Origin and projection of a map."""

from dataclasses import dataclass

from roadbed.core.errors import ConfigError

_MODEL_TYPE, _RASTER_TYPE, _PROJECTION = 1024, 1025, 3072  # GeoTIFF keys
_PROJECTED, _PIXEL_IS_AREA = 1, 1


@dataclass(frozen=True)
class Georeference:
    """Added to the map's coordinates: easting, northing and height of its origin, m; the map's x axis points east."""

    easting: float = 0.0
    northing: float = 0.0
    height: float = 0.0
    epsg: int | None = None  # of a projected system in metres, e.g. 32632

    def __post_init__(self) -> None:
        if self.epsg is not None and not 1024 <= self.epsg <= 32767:
            raise ConfigError(f"epsg = {self.epsg}: expected the code of a projected system, 1024 to 32767")

    def geo_keys(self) -> list[int]:
        """The GeoTIFF key directory, as TIFF and LAS files hold it; empty without a projection."""
        if self.epsg is None:
            return []
        keys = ((_MODEL_TYPE, _PROJECTED), (_RASTER_TYPE, _PIXEL_IS_AREA), (_PROJECTION, self.epsg))
        return [1, 1, 0, len(keys), *(number for key, value in keys for number in (key, 0, 1, value))]
