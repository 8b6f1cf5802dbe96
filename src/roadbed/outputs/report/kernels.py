# SPDX-License-Identifier: Apache-2.0
"""Notices when kernels were compiled or loaded: the frames in which that happens say nothing about speed."""

from __future__ import annotations

import sys


def ready_kernels() -> int:
    """How many variants of Roadbed's CPU kernels this process has ready; it grows as they are compiled or loaded."""
    from numba.core.dispatcher import Dispatcher

    modules = [module for name, module in list(sys.modules.items()) if name.startswith("roadbed.") and module]
    return sum(
        len(value.overloads)
        for module in modules
        for value in list(vars(module).values())
        if isinstance(value, Dispatcher)
    )
