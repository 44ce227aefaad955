"""Parsing of untrusted JSON text, with bounds on the memory that a few bytes may cause.

Python's parser accepts any nesting until its stack ends, and an empty list of two bytes takes sixty
bytes of memory. So texts are measured first: the depth of their brackets, and the largest possible
number of values. Only text outside of quoted strings counts.

DOTS hosts in C++ write and read `inf` and `nan`, which JSON does not have. This parser accepts them
in every spelling that C reads: `Infinity`, `-Inf`, `NAN`.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from skerry.errors import DecodeError
from skerry.limits import JSON_DEPTH_MAX, JSON_VALUE_COUNT_MAX

# Possessive, because otherwise the engine would keep a position to return to per character.
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
        # Only after a failure, because the search takes longer than parsing, and is rarely needed.
        respelled = _QUOTED_OR_NUMBER_OF_CPP.sub(_constant_of, data)
        if respelled != data:
            try:
                return _parse(respelled)
            except (ValueError, RecursionError):
                pass
        _refuse(f"not JSON: {error}")


def _parse(data: bytes) -> Any:
    # Python would guess other encodings, which a text message cannot have.
    return json.loads(data.decode("utf-8"), object_pairs_hook=_unique_names)


def _check_extent(data: bytes) -> None:
    opened = data.count(b"[") + data.count(b"{")
    # Counting is fast, cutting strings out is not. Few messages come near the bounds, even if
    # brackets and commas in strings are counted too.
    if opened <= JSON_DEPTH_MAX and opened + data.count(b",") <= JSON_VALUE_COUNT_MAX:
        return
    # A quote after a backslash does not end a string, unless the backslash is escaped itself.
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
    """Return a number of C++ in the spelling that Python's parser accepts."""
    name = found["name"]
    if name is None:
        return found[0]
    # A NaN has a sign in C++, but not here.
    return b"NaN" if name[:1] in b"nN" else found["minus"] + b"Infinity"


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) < len(pairs):
        raise ValueError(f"the name {_first_repeated(pairs)!s:.60} is used twice")
    return plain


def _first_repeated(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("no name is used twice")


def _refuse(detail: str) -> NoReturn:
    raise DecodeError(type_name="JSON", detail=detail)
