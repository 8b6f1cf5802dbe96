# SPDX-License-Identifier: Apache-2.0
"""Holds a built site to its promises: every link inside it leads somewhere, and nothing is fetched from other hosts."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlparse

# What a browser loads by itself, as against what a reader may click on.
_LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
_NOT_LOADED = {"canonical", "next", "prev", "alternate"}


class _Page(HTMLParser):
    """The names, links and loaded files of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        for name, value in given.items():
            if (tag, name) in _LOADED and given.get("rel") not in _NOT_LOADED:
                self.loaded.append(value)


def problems(site: Path) -> list[str]:
    """One line per broken link and per file from another host."""
    pages = {path: _Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    found = [] if pages else [f"{site}: found no pages"]
    for path, page in pages.items():
        here = path.relative_to(site)
        found += [f"{here}: loads {address} from another host" for address in page.loaded if urlparse(address).netloc]
        for link in [*page.links, *(address for address in page.loaded if not urlparse(address).netloc)]:
            target, name = urldefrag(link)
            if urlparse(link).scheme or urlparse(link).netloc:
                continue
            file = path if not target else (path.parent / unquote(urlparse(target).path)).resolve()
            if file.is_dir():
                file /= "index.html"
            if not file.exists():
                found.append(f"{here}: {link} leads nowhere")
            elif name and file in pages and unquote(name) not in pages[file].names:
                found.append(f"{here}: {link} names no part of its page")
    for path in site.rglob("*.css"):
        if "url(http" in path.read_text(encoding="utf-8"):
            found.append(f"{path.relative_to(site)}: loads from another host")
    return found


if __name__ == "__main__":
    lines = problems(Path(sys.argv[1]).resolve())
    print("\n".join(lines) or "every link leads somewhere, nothing comes from other hosts")
    sys.exit(bool(lines))
