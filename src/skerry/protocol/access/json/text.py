"""Untrusted JSON text as plain values, with bounds on what it may make of a few bytes.

Python's reader takes any nesting until its stack ends, and makes sixty bytes of memory of the two
of an empty list. So texts are measured first: how deep their brackets go, and how many values they
have at most. Only what stands outside of quoted strings counts.

DOTS hosts in C++ write `inf` and `nan`, which JSON does not have, and read them. So does this
reader, in every spelling that C reads: `Infinity`, `-Inf`, `NAN`.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from skerry.errors import DecodeError
from skerry.limits import JSON_DEPTH_MAX, JSON_VALUE_COUNT_MAX

__all__ = ["QUOTED", "parse_piece", "parse_text"]

# Possessive: without that, the engine would keep a place to come back to for every character.
QUOTED: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""A pattern of strings, for DOTALL."""
_QUOTED_OR_NUMBER_OF_CPP: Final = re.compile(
    rb"(?P<quoted>" + QUOTED + rb")|(?P<minus>-?)\b(?P<name>inf(?:inity)?|nan)\b",
    re.DOTALL | re.IGNORECASE,
)
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def parse_text(data: bytes) -> Any:
    """Return the value of a text in UTF-8; DecodeError if it is not JSON or is out of bounds."""
    _check_extent(data)
    return parse_piece(data)


def parse_piece(data: bytes) -> Any:
    """Return the value of a text whose extent is bounded already."""
    try:
        return _parse(data)
    except (ValueError, RecursionError) as error:
        # Only after a failure: the search takes longer than parsing, and few messages have any.
        respelled = _QUOTED_OR_NUMBER_OF_CPP.sub(_constant_of, data)
        if respelled != data:
            try:
                return _parse(respelled)
            except (ValueError, RecursionError):
                pass
        _refuse(f"not JSON: {error}")


def _parse(data: bytes) -> Any:
    # Python would guess other encodings, which a text message cannot have.
    return json.loads(data.decode("utf-8"), object_pairs_hook=_without_twins)


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
    """A number of C++ in the one spelling that Python's reader takes."""
    name = found["name"]
    if name is None:
        return found[0]
    # A NaN has a sign in C++, but not here.
    return b"NaN" if name[:1] in b"nN" else found["minus"] + b"Infinity"


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
