# SPDX-License-Identifier: Apache-2.0
"""Mutations that no test can or need notice, each with the reason."""

from __future__ import annotations

from tests.mutate.mutation import Mutation

# Path, a part of the changed text, and why nothing turns red.
EXPLAINED: tuple[tuple[str, str, str], ...] = ()


def why_it_survives(mutation: Mutation) -> str | None:
    """The reason on record, if there is one."""
    for path, after, reason in EXPLAINED:
        if mutation.path == path and after in mutation.after:
            return reason
    return None
