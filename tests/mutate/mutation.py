# SPDX-License-Identifier: Apache-2.0
"""One change to one file of the package, and the tests that are run against it."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """`before` becomes `after` in a file under src/roadbed; `which` of several equal places, None: the only one."""

    path: str
    before: str
    after: str
    tests: tuple[str, ...]
    which: int | None = None

    @property
    def name(self) -> str:
        """Short and stable, to find a result again."""
        told = "\0".join([self.path, self.before, self.after, str(self.which)])
        return hashlib.sha256(told.encode()).hexdigest()[:10]

    def applied(self, text: str) -> str | None:
        """The changed text; None where the place is not there, or not the only one."""
        pieces = text.split(self.before)
        at = 0 if self.which is None and len(pieces) == 2 else self.which
        if at is None or len(pieces) < at + 2:
            return None
        left, right = self.before.join(pieces[: at + 1]), self.before.join(pieces[at + 1 :])
        return left + self.after + right
