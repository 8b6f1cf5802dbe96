# SPDX-License-Identifier: Apache-2.0
"""params.yaml of the grid-variance report, with its names, defaults and axes (y is forward)."""

from typing import Any

from pydantic import Field

from roadbed.config.ground import PointLimits, VarianceThresholds


class ReportLimits(PointLimits):
    """In front of the vehicle, in the report's axes."""

    x_min: float = -50.0
    x_max: float = 50.0
    y_min: float = 0.0
    y_max: float = 100.0


class ReportParameters(VarianceThresholds):
    """The report's own file."""

    pointcloud_limits: ReportLimits = ReportLimits()
    grid_resolution: float = Field(0.3, ge=0.01, le=100, description="m")


def is_report(values: Any) -> bool:
    """Whether a YAML mapping has the report's keys at its top."""
    return isinstance(values, dict) and not set(ReportParameters.model_fields).isdisjoint(values)


def from_report(values: dict[str, Any], origin: str) -> dict[str, Any]:
    """The values of VarianceConfig that the file means."""
    found = ReportParameters.parse(values, origin).model_dump()
    found["spacing"] = found.pop("grid_resolution")
    return found
