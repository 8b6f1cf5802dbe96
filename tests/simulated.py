# SPDX-License-Identifier: Apache-2.0
"""Simulated drives that tests share: to simulate a scan takes longer than to process it."""

from functools import cache

from roadbed import Scan
from roadbed.sources import Source, open_source

_LONGEST = 60  # frames


@cache
def _drive(location: str) -> tuple[Source, list[Scan]]:
    return open_source(f"{location}&frames={_LONGEST}"), []


def simulated(location: str, frames: int) -> list[Scan]:
    """The first scans of a drive such as `sim:city?sensor=vlp16`, simulated once per process; never write to them."""
    source, scans = _drive(location)
    assert frames <= _LONGEST
    scans.extend(source[index] for index in range(len(scans), frames))
    return scans[:frames]
