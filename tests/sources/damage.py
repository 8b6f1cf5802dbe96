# SPDX-License-Identifier: Apache-2.0
"""Damaged copies of valid files: whatever is in them, a reader gives a scan or one line."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import strategies as st

from roadbed.core.errors import InputError
from roadbed.core.frames import Scan

# No file of a test comes near this; a header that is believed would.
_MOST_MEMORY = 64 << 20


@st.composite
def damaged(draw, raw: bytes, first: int = 0) -> bytes:
    """`raw` with some bytes changed, inserted, removed or cut off, from byte `first` on."""
    result = bytearray(raw)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(min(first, len(result)), len(result)))
        kind = draw(st.sampled_from(["change", "change", "digits", "cut", "remove"]))
        if kind == "change":
            result[place : place + 1] = draw(st.binary(min_size=1, max_size=4))
        elif kind == "digits":
            result[place : place + 1] = draw(st.sampled_from([b"999999999999", b"-1", b"1e18", b"\xff\xff\xff\xff"]))
        elif kind == "cut":
            del result[place:]
        else:
            del result[place : place + draw(st.integers(1, 8))]
    return bytes(result)


def reads_or_refuses(read: Callable[[Path], Scan], file: Path) -> None:
    """Only a scan or an InputError of one line may come out, within bounded memory."""
    tracemalloc.start()
    try:
        scan = read(file)
    except InputError as error:
        if "\n" in str(error):
            pytest.fail(f"more than one line: {error}")
    else:
        assert isinstance(scan, Scan)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < _MOST_MEMORY
