# SPDX-License-Identifier: Apache-2.0
"""Mutations drawn over the whole package: an operator turned round or a number changed, wherever the seed falls."""

import hashlib
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.mutate.mutation import Mutation
from tests.mutate.subjects import tests_of

SEED = 20261117
COUNT = 200
_SWAPS = {
    "+": "-", "-": "+", "*": "/", "/": "*", "<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "==",
    "and": "or", "or": "and", "&&": "||", "||": "&&", "True": "False", "False": "True", "min": "max", "max": "min",
    "+=": "-=", "-=": "+=", "*=": "/=", "fmin": "fmax", "fmax": "fmin", "sin": "cos", "cos": "sin", "floor": "ceil",
}  # fmt: skip
_NUMBER = re.compile(r"(?<![\w.])(\d+\.\d+|\d+)(?=[fF]?\b)(?!\.)")
_NO_STATEMENT = ("from ", "import ", "@", "def ", "class ", "raise ", '"', 'f"')
_BINARY = {"+", "-", "*", "/"}
_C_TOKEN = re.compile(r"&&|\|\||[<>=!]=|->|<<|>>|[-+*/]=|\+\+|--|[-+*/<>]|[A-Za-z_]\w*|(?:\d+\.\d+|\d+)f?")


def drawn(package: Path) -> list[Mutation]:
    """COUNT sites, in an order that the seed alone decides: an edit elsewhere does not change the others."""
    sites = [site for path in sorted(package.rglob("*")) for site in _sites(package, path)]

    def rank(site: Mutation) -> str:
        return hashlib.sha256(f"{SEED} {site.name}".encode()).hexdigest()

    return sorted(sites, key=rank)[:COUNT]


def _sites(package: Path, path: Path) -> Iterator[Mutation]:
    if path.suffix not in (".py", ".cl"):
        return
    text, name = path.read_text(), path.relative_to(package).as_posix()
    lines = text.split("\n")
    seen: dict[str, int] = {}
    places = _python_places(text) if path.suffix == ".py" else _c_places(text)
    by_line: dict[int, list[tuple[int, str, str]]] = {}
    for row, column, old, new in places:
        by_line.setdefault(row, []).append((column, old, new))
    for row, line in enumerate(lines):
        which = seen.get(line, 0)
        seen[line] = which + 1
        for column, old, new in by_line.get(row, ()):
            changed = line[:column] + new + line[column + len(old) :]
            before, after = f"\n{line}\n", f"\n{changed}\n"
            yield Mutation(name, before, after, tests_of(name), None if text.count(before) == 1 else which)


def _python_places(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Line, column, token and what replaces it, in statements that compute something."""
    last = None
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.line.strip()
        says_nothing = line.startswith(_NO_STATEMENT)
        if not says_nothing and token.start[0] == token.end[0]:
            new = _replacement(token.string, token.type == tokenize.NUMBER, _is_value(last))
            if new is not None:
                yield token.start[0] - 1, token.start[1], token.string, new
        last = token


def _is_value(token: tokenize.TokenInfo | None) -> bool:
    """Whether an operator after this token has two sides."""
    return token is not None and (token.type in (tokenize.NAME, tokenize.NUMBER) or token.string in (")", "]"))


def _c_places(text: str) -> Iterator[tuple[int, int, str, str]]:
    for row, line in enumerate(text.split("\n")):
        code = line.split("//")[0]
        if not code.strip() or code.lstrip().startswith(("#", "KERNEL", "FUNCTION", "GLOBAL", "LOCAL")):
            continue
        before = ""
        for match in _C_TOKEN.finditer(code):
            word = match.group()
            two_sided = bool(re.search(r"[\w)\]]\s*$", code[: match.start()])) and before != "return"
            # A star beside a space on one side only declares or follows a pointer.
            pointer = word == "*" and code[match.start() - 1 : match.start() + 2].count(" ") == 1
            number = word[0].isdigit()
            new = None if pointer else _replacement(word.rstrip("f") if number else word, number, two_sided)
            if new is not None:
                yield row, match.start(), word, new + ("f" if number and word.endswith("f") else "")
            before = word


def _replacement(word: str, number: bool, two_sided: bool) -> str | None:
    if number:
        return _other_number(word)
    if word in _BINARY and not two_sided:
        return None
    return _SWAPS.get(word)


def _other_number(word: str) -> str | None:
    if not _NUMBER.fullmatch(word):
        return None
    if "." in word:
        return str(2 * float(word)) if float(word) else "1.0"
    return str(int(word) + 1)
