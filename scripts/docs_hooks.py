# SPDX-License-Identifier: Apache-2.0
"""What mkdocs calls while it builds the site: pages that are generated, and pages that nobody put into the menu."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from roadbed.config import Config
from roadbed.config.reference import markdown

GENERATED = {"parameters.md"}
TASKS = {"ros.md": "ROS", "live.md": "Live", "maps.md": "Maps", "batch.md": "Many drives"}


def on_config(config: Any) -> Any:
    """Every page of the folder is in the menu: tasks among the tasks, whatever else is there under More."""
    listed = set(_pages(config.nav))
    found = {path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir).rglob("*.md")}
    tasks = next(part["Tasks"] for part in config.nav if "Tasks" in part)
    tasks += [{title: page} for page, title in TASKS.items() if page in found - listed]
    others = sorted(found - listed - set(TASKS))
    if others:
        config.nav.append({"More": others})
    return config


def on_files(files: Files, *, config: Any) -> Files:
    files.append(File.generated(config, "parameters.md", content=markdown(Config)))
    return files


def _pages(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    inner = part.values() if isinstance(part, dict) else part
    return [page for item in inner for page in _pages(item)]
