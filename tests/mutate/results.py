# SPDX-License-Identifier: Apache-2.0
"""What was found about each mutation, one JSON line at a time, on one machine or several."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.mutate.explained import why_it_survives
from tests.mutate.mutation import Mutation

# What a test has noticed stays noticed; what all tests let pass says more than what those of a poorer machine did.
_WEIGHT = {"noticed": 3, "survived": 2, "open": 1, "not runnable": 0}


class Results:
    """All `*.jsonl` in the folder count, whatever machine they come from; new ones go to `results.jsonl`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "results.jsonl"
        self._of: dict[str, dict] = {}
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_text().splitlines():
                item = json.loads(line)
                if _WEIGHT[item["what"]] >= _WEIGHT[self._of.get(item["name"], item)["what"]]:
                    self._of[item["name"]] = item

    def of(self, mutation: Mutation) -> str | None:
        return self._of.get(mutation.name, {}).get("what")

    def add(self, mutation: Mutation, what: str, by: str, seconds: float) -> None:
        item = {"name": mutation.name, "path": mutation.path, "what": what, "by": by, "seconds": round(seconds, 1)}
        self._of[mutation.name] = item
        with self.path.open("a") as file:
            file.write(json.dumps(item) + "\n")

    def judged(self, mutation: Mutation) -> bool:
        return self.of(mutation) in ("noticed", "survived")

    def report(self, wanted: Sequence[Mutation]) -> str:
        """The score, what is open, and every survivor with the reason why it may live."""
        judged = [mutation for mutation in wanted if self.judged(mutation)]
        noticed = [mutation for mutation in judged if self.of(mutation) == "noticed"]
        late = sum(self._of[mutation.name]["by"] == "the time limit" for mutation in noticed)
        share = f" ({100 * len(noticed) / len(judged):.1f} %), {late} of them by the time limit" if judged else ""
        lines = [f"judged {len(judged)} of {len(wanted)}; noticed {len(noticed)}{share}"]
        parts = Counter(mutation.path.split("/")[0] for mutation in judged)
        seen = Counter(mutation.path.split("/")[0] for mutation in noticed)
        lines.append(", ".join(f"{part} {seen[part]} of {count}" for part, count in parts.most_common()))
        for mutation in wanted:
            what = self.of(mutation)
            if what != "noticed":
                reason = why_it_survives(mutation) or "-"
                lines.append(f"| {what or 'not judged'} | `{mutation.path}` | {told(mutation)} | {reason} |")
        return "\n".join(lines)


def told(mutation: Mutation) -> str:
    """The change in one line."""
    before, after = (" ".join(text.split()) for text in (mutation.before, mutation.after))
    start = next((k for k, (one, other) in enumerate(zip(before, after)) if one != other), 0)
    low = max(min(start - 30, len(before) - 60), 0)
    return f"`{before[low : low + 60]}` -> `{after[low : low + 60]}`"
