"""JSON text of a stranger as plain values, with bounds on what it may make of a few bytes.

Python's reader takes any nesting until its stack ends, and makes sixty bytes of memory of the two
of an empty list. So texts are measured first: how deep their brackets go, and how many values they
have at most. Only what stands outside of quoted strings counts.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from skerry.errors import DecodeError
from skerry.limits import JSON_DEPTH_MAX, JSON_VALUE_COUNT_MAX

__all__ = ["parse_text"]

# Possessive: without that, the engine would keep a place to come back to for every character.
_QUOTED: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_QUOTED_OR_NUMBER_OF_CPP: Final = re.compile(
    rb"(?P<quoted>" + _QUOTED + rb")|(?P<minus>-?)\b(?P<name>inf|nan)\b", re.DOTALL
)
_CONSTANTS: Final = {b"inf": b"Infinity", b"nan": b"NaN"}
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def parse_text(data: bytes, *, is_lenient: bool = False) -> Any:
    """The value that a text in UTF-8 is; DecodeError when it is none, or is out of bounds.

    A lenient reader takes `inf` and `nan` too, which the C++ host writes and JSON does not have.
    """
    _check_extent(data)
    if is_lenient:
        data = _QUOTED_OR_NUMBER_OF_CPP.sub(_constant_of, data)
    try:
        return json.loads(
            # Python would guess other encodings, which a text message cannot have.
            data.decode("utf-8"),
            object_pairs_hook=_without_twins,
            parse_constant=float if is_lenient else _refuse_constant,
        )
    except (ValueError, RecursionError) as error:
        _refuse(f"not JSON: {error}")


def _check_extent(data: bytes) -> None:
    opened = data.count(b"[") + data.count(b"{")
    # Counting is fast, cutting strings out is not. Few messages come near the bounds, even when
    # what only looks like a bracket or a comma is counted too.
    if opened <= JSON_DEPTH_MAX and opened + data.count(b",") <= JSON_VALUE_COUNT_MAX:
        return
    # A quote behind a backslash ends no string; of two backslashes the second is only itself.
    quotes_that_count = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    bare = b"".join(quotes_that_count.split(b'"')[::2])
    count = bare.count(b"[") + bare.count(b"{") + bare.count(b",")
    if count > JSON_VALUE_COUNT_MAX:
        _refuse(f"{count} values, the limit is {JSON_VALUE_COUNT_MAX}")
    depth = 0
    for bracket in bare.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > JSON_DEPTH_MAX:
            _refuse(f"nested deeper than {JSON_DEPTH_MAX}")


def _constant_of(found: re.Match[bytes]) -> bytes:
    name = found["name"]
    if name is None:
        return found[0]
    # A NaN has a sign for C++, and none for JSON readers.
    return _CONSTANTS[name] if name == b"nan" else found["minus"] + _CONSTANTS[name]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) < len(pairs):
        raise ValueError(f"{_first_twin(pairs)!s:.60} is there twice")
    return plain


def _first_twin(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("no name is there twice")


def _refuse(detail: str) -> NoReturn:
    raise DecodeError(type_name="JSON", detail=detail)
