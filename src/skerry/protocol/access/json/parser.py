"""Parsing of untrusted JSON text in steps, between which other clients are served.

Python's parser reads a text in one call, which may take seconds. So the text is cut at commas into
pieces of some kilobytes, and each piece is parsed alone. This module parses values that do not fit
into a piece, or that are nested deeper than the pieces.

Values are passed to a `JsonSink` as they are found. A large text never becomes a large value, whose
lists and dictionaries Python's garbage collector would examine repeatedly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NoReturn, Protocol

from skerry.errors import DecodeError
from skerry.limits import JSON_DEPTH_MAX, JSON_PIECE_BYTES, JSON_VALUE_COUNT_MAX
from skerry.protocol.access.json.text import QUOTED, parse_piece

_LEVEL_MAX: Final = 4
"""Levels of brackets in a piece."""
_SCALAR_BYTES_MAX: Final = 4300
"""The longest number: the most digits that Python converts."""
_NAME_COUNT_MAX: Final = 10_000
"""Names in one object that does not fit into a piece; a struct has at most 31."""
_SPACES: Final = re.compile(rb"[ \t\n\r]*+")
_SCALAR: Final = re.compile(rb'[^ \t\n\r,:\[\]{}"]++')
_QUOTED: Final = re.compile(QUOTED, re.DOTALL)
_HEX: Final = rb"[0-9A-Fa-f]"
_STRING_PART: Final = re.compile(
    # The two escapes of a surrogate pair stay together.
    rb'(?:[^"\\]++|\\u[dD][89abAB]'
    + _HEX * 2
    + rb"(?:\\u[dD][c-fC-F]"
    + _HEX * 2
    + rb"|(?=[^\\]|\\[^u]|\\u[^dD]|\\u[dD][^c-fC-F]))|\\u(?![dD][89abAB])"
    + _HEX * 4
    + rb"|\\[^u])*+",
    re.DOTALL,
)
_BYTES_PER_UNIT: Final = 16
_UNITS_PER_VALUE: Final = 4
"""Work is counted in units of a quarter of a look, the unit of a client's turn."""


def _body(level: int) -> bytes:
    """Return the pattern of all values of a container with up to `level` levels of brackets."""
    return rb'(?:[^\[\]{}"]++|' + QUOTED + _nested(level) + rb")*+"


def _nested(level: int) -> bytes:
    return rb"|[\[{]" + _body(level - 1) + rb"[\]}]" if level else b""


_RUNS: Final = tuple(
    re.compile(rb'(?:(?:[^\[\]{}",]++|' + QUOTED + _nested(level) + rb")*+,)++", re.DOTALL)
    for level in range(_LEVEL_MAX + 1)
)
"""Patterns of whole values, each with the comma after it."""
_RESTS: Final = tuple(re.compile(_body(level), re.DOTALL) for level in range(_LEVEL_MAX + 1))
"""Patterns of all values up to the closing bracket of their container."""


class JsonSink(Protocol):
    """Receives the values of a text."""

    def begin(self, name: str | None, *, is_list: bool) -> None:
        """A list or an object begins; `name` is its name in the object around it."""

    def add(self, values: list[Any] | dict[str, Any]) -> None:
        """Add values to the innermost list or object. A single value of the text is a list."""

    def end(self) -> None:
        """The innermost list or object ends."""


class JsonParser:
    """Parses one text. `step` raises DecodeError if the text is not JSON or exceeds a bound.

    No step reads more than `piece_bytes`, which is at least 16.
    """

    def __init__(self, data: bytes, sink: JsonSink, *, piece_bytes: int = JSON_PIECE_BYTES) -> None:
        self._data = data
        self._sink = sink
        self._piece_bytes = piece_bytes
        self._pos = 0
        self._open: list[set[str] | None] = []
        """The containers of the next value, the innermost last: the names in an object, None for a
        list."""
        self._name: str | None = None
        self._parts: list[str] = []
        """The parts of a long string that were read."""
        self._is_after_comma = False
        self._value_count = 0
        self._state: Callable[[], int] | None = self._value

    @property
    def is_done(self) -> bool:
        """Whether all of the text was parsed."""
        return self._state is None

    def step(self) -> int:
        """Parse the next piece; return the units of work that it took."""
        assert self._state is not None
        begin = self._pos
        count = self._state()
        return 1 + count * _UNITS_PER_VALUE + (self._pos - begin) // _BYTES_PER_UNIT

    # -- states; each returns the number of values that it parsed

    def _items(self) -> int:
        """In a container, before a value."""
        data, begin = self._data, self._pos
        stop = begin + self._piece_bytes
        level = min(_LEVEL_MAX, JSON_DEPTH_MAX - len(self._open))
        found = _RUNS[level].match(data, begin, stop)
        if found is not None:
            self._pos = found.end()
            self._is_after_comma = True
            return self._add(data[begin : self._pos - 1], 1)
        found = _RESTS[level].match(data, begin, stop)
        assert found is not None
        end = found.end()
        if data[end : end + 1] not in (b"]", b"}"):
            return self._large_item()
        rest, count = data[begin:end], 0
        if rest.strip(b" \t\n\r"):
            count = self._add(rest, 0)
        elif self._is_after_comma:
            self._refuse("a value is missing after a comma")
        self._pos = end
        self._close()
        return count

    def _large_item(self) -> int:
        """A value that does not fit into a piece, or is nested deeper."""
        if self._is_spaced():
            if self._open[-1] is None:
                return self._value()
            if self._data[self._pos : self._pos + 1] != b'"':
                self._refuse("a name in quotes is missing")
            self._begin_string()
        return 0

    def _value(self) -> int:
        """Before a single value."""
        if not self._is_spaced():
            return 0
        data, begin = self._data, self._pos
        first = data[begin : begin + 1]
        if first in (b"[", b"{"):
            return self._begin(is_list=first == b"[")
        if first == b'"':
            self._begin_string()
            return 0
        found = _SCALAR.match(data, begin, begin + _SCALAR_BYTES_MAX + 1)
        if found is None:
            self._refuse("a value is missing")
        self._pos = found.end()
        if self._pos - begin > _SCALAR_BYTES_MAX:
            self._refuse(f"a number of more than {_SCALAR_BYTES_MAX} characters")
        self._add_single(parse_piece(found[0]))
        return 1

    def _begin(self, *, is_list: bool) -> int:
        self._pos += 1
        self._sink.begin(self._name, is_list=is_list)
        self._name = None
        self._open.append(None if is_list else set())
        if len(self._open) > JSON_DEPTH_MAX:
            _refuse(f"nested deeper than {JSON_DEPTH_MAX}")
        self._is_after_comma = False
        self._state = self._items
        return self._count(1)

    def _begin_string(self) -> None:
        self._pos += 1
        self._parts.clear()
        self._state = self._string

    def _string(self) -> int:
        data, begin = self._data, self._pos
        found = _STRING_PART.match(data, begin, begin + self._piece_bytes)
        assert found is not None
        end = found.end()
        is_last = data[end : end + 1] == b'"'
        # A character must not be cut in two.
        while not is_last and begin < end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        if end == begin and not is_last:
            self._refuse("a string that does not end, or an escape that is not valid")
        self._parts.append(parse_piece(b'"' + data[begin:end] + b'"'))
        self._pos = end
        if is_last:
            self._pos += 1
            self._end_string("".join(self._parts))
        return 1

    def _end_string(self, text: str) -> None:
        names = self._open[-1] if self._open else None
        if names is None or self._name is not None:
            self._add_single(text)
            return
        self._note_names(names, {text})
        self._name = text
        self._state = self._colon

    def _colon(self) -> int:
        """After a name."""
        if self._is_spaced():
            if self._data[self._pos : self._pos + 1] != b":":
                self._refuse("a colon is missing")
            self._pos += 1
            self._state = self._value
        return 0

    def _after(self) -> int:
        """After a single value."""
        if self._pos == len(self._data) and not self._open:
            self._state = None
            return 0
        if not self._is_spaced(is_end_allowed=not self._open):
            return 0
        following = self._data[self._pos : self._pos + 1]
        if not self._open:
            self._refuse("more text after the value")
        if following == b",":
            self._pos += 1
            self._is_after_comma = True
            self._state = self._items
            return self._count(1)
        if following not in (b"]", b"}"):
            self._refuse("a comma is missing")
        self._close()
        return 0

    # -- helpers

    def _add(self, piece: bytes, comma_count: int) -> int:
        """Add the values of a piece to the innermost container."""
        bare = _QUOTED.sub(b"", piece) if b'"' in piece else piece
        count = comma_count + bare.count(b",") + bare.count(b"[") + bare.count(b"{")
        self._count(count)
        names = self._open[-1]
        opening, closing = (b"[", b"]") if names is None else (b"{", b"}")
        found = parse_piece(opening + piece + closing)
        if not found:
            self._refuse("a value is missing before a comma")
        if names is not None:
            self._note_names(names, set(found))
        self._sink.add(found)
        return count

    def _add_single(self, value: object) -> None:
        """Add a value that was parsed alone."""
        name, self._name = self._name, None
        self._sink.add([value] if name is None else {name: value})
        self._state = self._after

    def _note_names(self, names: set[str], more: set[str]) -> None:
        for twin in names & more:
            _refuse(f"not JSON: the name {twin:.60} is used twice")
        names |= more
        if len(names) > _NAME_COUNT_MAX:
            _refuse(f"more than {_NAME_COUNT_MAX} names in one object")

    def _close(self) -> None:
        """End the innermost container, at the bracket at this position."""
        closing = b"]" if self._open.pop() is None else b"}"
        if self._data[self._pos : self._pos + 1] != closing:
            self._refuse(f"expected {closing.decode()}")
        self._pos += 1
        self._sink.end()
        self._state = self._after

    def _is_spaced(self, *, is_end_allowed: bool = False) -> bool:
        """Skip white space. Return whether other text follows; False if that is unknown yet."""
        stop = self._pos + self._piece_bytes
        found = _SPACES.match(self._data, self._pos, stop)
        assert found is not None
        self._pos = found.end()
        if self._pos == len(self._data) and not is_end_allowed:
            self._refuse("the text ends too early")
        return self._pos < stop and self._pos < len(self._data)

    def _count(self, count: int) -> int:
        self._value_count += count
        if self._value_count > JSON_VALUE_COUNT_MAX:
            _refuse(f"more than {JSON_VALUE_COUNT_MAX} values")
        return count

    def _refuse(self, detail: str) -> NoReturn:
        _refuse(f"not JSON: {detail}, at byte {self._pos}")


def _refuse(detail: str) -> NoReturn:
    raise DecodeError(type_name="JSON", detail=detail)
