# SPDX-License-Identifier: Apache-2.0
"""The machine code of kernels that are called with arguments of the same types again and again, looked up once.

Numba looks at every array in every tuple of a call to find the code for their types: for a scan of few points a tenth
of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray


class Entrances:
    """For one caller whose arguments have the same types in every call, but for arrays that come from elsewhere.

        enter = Entrances()
        enter(kernel, points)(points, own_arrays, 3)

    An array of another layout, or one that must not be written to, is another type: machine code does not notice.
    """

    def __init__(self) -> None:
        self._known: dict[Any, Callable[..., Any]] = {}

    def __call__(self, kernel: Any, *from_elsewhere: NDArray) -> Callable[..., Any]:
        """What to call: the kernel's code for arguments with these arrays among them."""
        key = kernel, *[(array.dtype.char, array.ndim, array.flags.num) for array in from_elsewhere]
        return self._known.get(key) or self._first(key, kernel)

    def _first(self, key: Any, kernel: Any) -> Callable[..., Any]:
        return _First(self._known, key, kernel) if isinstance(kernel, Dispatcher) else kernel  # NUMBA_DISABLE_JIT


class _First:
    """A call of the kernel as ever, which notes what Numba found."""

    def __init__(self, known: dict[Any, Callable[..., Any]], key: Any, kernel: Any) -> None:
        self._known, self._key, self._kernel = known, key, kernel
        self.overloads = kernel.overloads  # as `threads` asks for them

    def __call__(self, *arguments: Any) -> Any:
        result = self._kernel(*arguments)
        found = self.overloads.get(types_of(self._kernel, arguments))
        if found is not None:  # else these arguments are converted to what another one takes
            self._known[self._key] = found.entry_point
        return result


def types_of(kernel: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """As Numba sees them."""
    return tuple(map(kernel.typeof_pyval, arguments))
