# SPDX-License-Identifier: Apache-2.0
"""A source with a simulated fault: `fault:drop?first=20&count=5&of=sim:city?sensor=vlp16`. `of=` comes last."""

from __future__ import annotations

from typing import Any

import numpy as np

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan
from roadbed.simulate.faults import SCAN_FAULTS, SEQUENCE_FAULTS, FaultContext, FaultOptions
from roadbed.sources.source import Source

KINDS = (*SEQUENCE_FAULTS, *SCAN_FAULTS)


class FaultSource(Source):
    """Another source, some of whose scans are lost, late, damaged, or have a wrong pose or time.

    `of` is the other source, opened; `numbers[i]` is the scan of it that comes as scan i.
    """

    name = "fault"
    accepts = ("of", *FaultOptions.model_fields)

    def __init__(self, location: str, **options: Any) -> None:
        super().__init__(location, **options)
        self.kind = self.path.removeprefix("fault:")
        if self.kind not in KINDS:
            raise InputError(f"{location}: fault {self.kind!r}: expected one of {', '.join(KINDS)}")
        if "of" not in self.options:
            raise InputError(f"{location}: expected of=SOURCE as the last option, found none")
        self._source: Source = self.options.pop("of")
        self.settings: FaultOptions = FaultOptions.parse(self.options, location)
        self.sequential = self._source.sequential
        self.numbers = list(range(len(self._source)))
        if len(self.numbers) <= self.settings.first:
            raise InputError(f"{location}: first {self.settings.first}: found {len(self.numbers)} scans, expected more")
        if self.kind in SEQUENCE_FAULTS:
            self.numbers = SEQUENCE_FAULTS[self.kind](self.numbers, self.settings)

    @classmethod
    def matches(cls, location: str) -> bool:
        return location.startswith("fault:")

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: int) -> Scan:
        number = self.numbers[index]
        scan = self._source[number]
        if self.kind in SEQUENCE_FAULTS or number not in self.settings.hit:
            return scan
        before = self._source[self.settings.first - 1]
        random = np.random.default_rng((self.settings.seed, number))
        return SCAN_FAULTS[self.kind](scan, FaultContext(self.settings, before, random))
