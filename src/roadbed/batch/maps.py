# SPDX-License-Identifier: Apache-2.0
"""Merges the maps of many sequences in groups, level by level, always in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from roadbed.batch.folders import atomic_folder
from roadbed.batch.job import Job, Outcome
from roadbed.core.errors import InputError
from roadbed.mapping.index import MapIndex
from roadbed.mapping.merge import foreign_to_map, merge_maps, new_map_folder
from roadbed.mapping.reader import MapReader

GROUP = 8  # maps that one task adds up


@dataclass(frozen=True)
class Merge:
    """One task: `maps` become `target`, in the frame of the map at `onto`."""

    maps: tuple[Path, ...]
    target: Path


def levels(maps: Sequence[Path], target: Path, between: Path, group: int = GROUP) -> Iterator[list[Merge]]:
    """The merges of each level; those of one level may run at the same time, the last one writes `target`."""
    level, remaining = 0, list(maps)
    while level == 0 or len(remaining) > 1:
        last = len(remaining) <= group
        groups = [remaining[k : k + group] for k in range(0, len(remaining), group)]
        merges = [
            Merge(tuple(parts), target if last else between / f"map-{level}-{number:05d}")
            for number, parts in enumerate(groups)
        ]
        yield merges
        level, remaining = level + 1, [merge.target for merge in merges]


def do_merge(job: Job, name: str, maps: Sequence[Path], target: Path, onto: Path) -> Iterator[Outcome]:
    """Add maps up; a damaged tile is an error here, as a map that lacks it would look complete."""
    stored = [MapReader(path) for path in maps]
    with atomic_folder(target, job.unfinished, foreign_to_map) as folder:
        merge_maps(stored, lambda: new_map_folder(folder, [one.folder for one in stored]), MapIndex.of(onto))
        damaged = [line for one in stored for line in one.damaged]
        if damaged:
            raise InputError(damaged[0])
    yield Outcome(name, "done")
