# SPDX-License-Identifier: Apache-2.0
"""Called by mkdocs: pages that mkdocs.yml does not list appear under More."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    listed = set(_pages(config.nav))
    found = {path.relative_to(config.docs_dir).as_posix() for path in Path(config.docs_dir).rglob("*.md")}
    if found - listed:
        config.nav.append({"More": sorted(found - listed)})
    return config


def _pages(part: Any) -> list[str]:
    if isinstance(part, str):
        return [part]
    inner = part.values() if isinstance(part, dict) else part
    return [page for item in inner for page in _pages(item)]
