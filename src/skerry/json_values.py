"""Conversion of Python values for JSON, and of text for a terminal."""

from __future__ import annotations

import dataclasses
import enum
import json
import unicodedata
from collections.abc import Sequence
from typing import Final


def plain(value: object) -> object:
    """Convert a value that JSON has no form for. Use it as `json.dumps(..., default=plain)`."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, set | frozenset):
        # The order of a set of texts differs between processes.
        return sorted(value, key=_rank)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


_HARMLESS: Final = frozenset("\t\u200c\u200d")
"""Characters that are not printable but serve layout and the joining of letters."""


def visible(text: str) -> str:
    """The text with escapes, such as `\\x1b`, for characters that a terminal would interpret."""
    return text if text.isprintable() else "".join(map(_visible_char, text))


def _visible_char(char: str) -> str:
    if char.isprintable() or char in _HARMLESS or unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode("ascii")


def _rank(value: object) -> tuple[int, float, str]:
    """Sort key for values of different types: numbers, then texts, then others as JSON."""
    if isinstance(value, int | float):
        return 0, value, ""
    if isinstance(value, str):
        return 1, 0, value
    return 2, 0, json.dumps(value, default=plain, sort_keys=True)
