# SPDX-License-Identifier: Apache-2.0
"""Runs several command graphs with one call of the driver."""

from roadbed.runtime.backend import Backend
from roadbed.runtime.graphs import CommandGraph, Concurrent


class GraphCache:
    """Combines each sequence of graphs at its first use and keeps the combined graph."""

    _CAPACITY = 16  # sequences

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._combined: dict[tuple[CommandGraph | Concurrent, ...], CommandGraph] = {}

    def clear(self) -> None:
        """Drop all combined graphs: their parts were recorded again."""
        self._combined.clear()

    def run(self, *graphs: CommandGraph | Concurrent) -> None:
        graph, phases = self._combined.get(graphs) or self._combine(graphs), self._backend.traffic.phases
        if phases is None:
            graph.run()
            return
        for phase, seconds in graph.timed().items():
            phases[phase] = phases.get(phase, 0.0) + seconds

    def _combine(self, graphs: tuple[CommandGraph | Concurrent, ...]) -> CommandGraph:
        if len(self._combined) >= self._CAPACITY:
            self._combined.clear()
        only = graphs[0]
        combined = self._backend.combined(graphs) if len(graphs) > 1 or isinstance(only, Concurrent) else only
        self._combined[graphs] = combined
        return combined
