# SPDX-License-Identifier: Apache-2.0
"""Device programs whose kernels are text of a test."""

from collections.abc import Mapping
from dataclasses import dataclass

from roadbed.runtime.program import Program


@dataclass(frozen=True)
class InlineProgram(Program):
    """A program with kernels given as text, behind those of `files`."""

    kernels: str = ""

    def source(self, runtime: Mapping[str, int | float]) -> str:
        return super().source(runtime) + "\n" + self.kernels
