# SPDX-License-Identifier: Apache-2.0
"""How much memory is free."""

from __future__ import annotations

import os


def available_bytes() -> int | None:
    """Free memory of this machine, None where the system does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
