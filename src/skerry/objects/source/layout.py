"""Python source: literals, and calls in the layout of formatters.

A call that does not fit into a line has one item per line and a trailing comma. Formatters keep
this layout for any line length.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

INDENT: Final = "    "

_WIDTH: Final = 88
"""The default line length of formatters."""


@dataclass(frozen=True, slots=True)
class Brackets:
    """Items between brackets, on one line or on several lines."""

    head: str
    items: Sequence[Piece]
    tail: str


Piece: TypeAlias = str | Brackets


def lay_out(piece: Piece, indent: str = "", *, lead: str = "", trail: str = "") -> list[str]:
    """The lines of a piece of source, with the text before and after it."""
    line = f"{indent}{lead}{_flat(piece)}{trail}"
    if isinstance(piece, str) or not piece.items or _width(line) <= _WIDTH:
        return [line]
    lines = [f"{indent}{lead}{piece.head}"]
    for item in piece.items:
        lines += lay_out(item, indent + INDENT, trail=",")
    return [*lines, f"{indent}{piece.tail}{trail}"]


def text_literal(text: str) -> str:
    """The text as a literal, in the quotes that need fewer escapes; double quotes if equal."""
    quote = "'" if text.count('"') > text.count("'") else '"'
    return quote + "".join(_character(char, quote) for char in text) + quote


def docstring(text: str, indent: str) -> list[str] | None:
    """The lines of a docstring with the content `text`; None if it would need escapes."""
    if not text or not all(char.isprintable() or char == "\n" for char in text):
        return None
    if "\\" in text or '"""' in text or text.startswith('"') or text.endswith('"'):
        return None
    rows = text.split("\n")
    body = "\n".join([rows[0], *(f"{indent}{row}" if row else "" for row in rows[1:])])
    if len(rows) > 1:
        body += f"\n{indent}"
    if inspect.cleandoc(body) != text or any(row != row.rstrip() for row in rows):
        return None
    return f'{indent}"""{body}"""'.split("\n")


def _flat(piece: Piece) -> str:
    if isinstance(piece, str):
        return piece
    items = ", ".join(_flat(item) for item in piece.items)
    is_tuple_of_one = piece.tail == ")" and piece.head.endswith("= (") and len(piece.items) == 1
    return f"{piece.head}{items}{',' if is_tuple_of_one else ''}{piece.tail}"


def _width(line: str) -> int:
    # Some characters have two columns. To count all except ASCII as two breaks a line too early at
    # worst, which formatters do not change.
    return sum(1 if char.isascii() else 2 for char in line)


def _character(char: str, quote: str) -> str:
    if char in (quote, "\\"):
        return "\\" + char
    return char if char.isprintable() else repr(char)[1:-1]
