"""Values as JSON has them and text as a terminal may: one set of rules for all that is shown."""

from __future__ import annotations

import dataclasses
import enum
import json
import unicodedata
from collections.abc import Sequence
from typing import Final

__all__ = ["plain", "visible"]


def plain(value: object) -> object:
    """What JSON shows of a value it does not know itself; for `json.dumps(..., default=plain)`."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, set | frozenset):
        # The order inside a set of texts is another one in every process.
        return sorted(value, key=_rank)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


_HARMLESS: Final = frozenset("\t\u200c\u200d")
"""Not printable by themselves, but good for layout and for joining letters."""


def visible(text: str) -> str:
    """The text with escapes for all that a terminal would not show but obey, as `\\x1b`."""
    return text if text.isprintable() else "".join(map(_visible_char, text))


def _visible_char(char: str) -> str:
    if char.isprintable() or char in _HARMLESS or unicodedata.category(char) == "Zs":
        return char
    return char.encode("unicode_escape").decode("ascii")


def _rank(value: object) -> tuple[int, float, str]:
    """An order for what cannot be compared: numbers, then texts, then the rest as JSON."""
    if isinstance(value, int | float):
        return 0, value, ""
    if isinstance(value, str):
        return 1, 0, value
    return 2, 0, json.dumps(value, default=plain, sort_keys=True)
