"""Writes entries of a Goby log, preceded by the names and descriptors that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.protocol.portal.identifiers import Scheme
from skerry.recording.goby.entries import (
    DESCRIPTOR_GROUP,
    DESCRIPTOR_TYPE,
    GOBY_INDEX_MAX,
    GOBY_LOG_VERSION,
    GROUP_INDEX,
    SCHEME_WORD,
    TYPE_INDEX,
    WORD,
    GobyLogEntry,
    encode_entry,
)

Descriptors = Callable[[str], Iterable[tuple[str, bytes]]]
"""Returns name and descriptor of each file that a protobuf type needs, each after its imports."""

_DESCRIBED: Final = (Scheme.PROTOBUF, Scheme.DCCL)
_TIME_MAX: Final = 2**64


class GobyLogWriter:
    """Encodes the entries of one log, in the order in which they are written."""

    def __init__(self, descriptors: Descriptors = lambda _name: ()) -> None:
        self._descriptors = descriptors
        self._numbers: dict[int, dict[tuple[int, str], int]] = {GROUP_INDEX: {}, TYPE_INDEX: {}}
        self._written_files: set[str] = set()

    def head(self) -> bytes:
        """The first bytes of a log."""
        return WORD.pack(GOBY_LOG_VERSION)

    def encode(self, entry: GobyLogEntry) -> bytes:
        """The bytes of an entry and of what it needs before it.

        Raises LocalProtocolError for a scheme or time that a log cannot have, and LimitExceeded for
        too much data or too many names; then nothing is written.
        """
        if not 0 <= entry.scheme < TYPE_INDEX:
            raise LocalProtocolError(
                f"a Goby log cannot have the scheme {entry.scheme}: schemes are 0 to"
                f" {TYPE_INDEX - 1}"
            )
        if not 0 <= entry.time_us < _TIME_MAX:
            raise LocalProtocolError(f"a Goby log cannot have the time {entry.time_us} us")
        counts = {kind: len(numbers) for kind, numbers in self._numbers.items()}
        files = self._written_files
        try:
            return b"".join(self._pieces(entry))
        except LimitExceeded:
            for kind, count in counts.items():
                while len(self._numbers[kind]) > count:
                    self._numbers[kind].popitem()
            self._written_files = files
            raise

    def _pieces(self, entry: GobyLogEntry) -> list[bytes]:
        pieces: list[bytes] = []
        group = self._number(GROUP_INDEX, entry, entry.group, pieces)
        is_new = (entry.scheme, entry.type_name) not in self._numbers[TYPE_INDEX]
        type_ = self._number(TYPE_INDEX, entry, entry.type_name, pieces)
        if is_new and entry.scheme in _DESCRIBED:
            self._describe(entry, pieces)
        pieces.append(encode_entry(entry.scheme, group, type_, entry.time_us, entry.data))
        return pieces

    def _describe(self, entry: GobyLogEntry, pieces: list[bytes]) -> None:
        for name, data in self._descriptors(entry.type_name):
            if name in self._written_files:
                continue
            # A new set: the old one is restored if the entry cannot be written.
            self._written_files = {*self._written_files, name}
            made = GobyLogEntry(
                scheme=Scheme.PROTOBUF,
                group=DESCRIPTOR_GROUP,
                type_name=DESCRIPTOR_TYPE,
                time_us=entry.time_us,
                data=data,
            )
            group = self._number(GROUP_INDEX, made, made.group, pieces)
            type_ = self._number(TYPE_INDEX, made, made.type_name, pieces)
            pieces.append(encode_entry(made.scheme, group, type_, made.time_us, made.data))

    def _number(self, kind: int, entry: GobyLogEntry, name: str, pieces: list[bytes]) -> int:
        """The number of a name, which is written if it is new."""
        numbers = self._numbers[kind]
        known = numbers.get((entry.scheme, name))
        if known is not None:
            return known
        number = len(numbers) + 1
        if number > GOBY_INDEX_MAX:
            what = "groups" if kind == GROUP_INDEX else "types"
            raise LimitExceeded(
                what=f"count of {what} of a Goby log", value=number, limit=GOBY_INDEX_MAX
            )
        data = SCHEME_WORD.pack(entry.scheme) + name.encode("utf-8", "surrogateescape")
        group, type_ = (number, 0) if kind == GROUP_INDEX else (0, number)
        pieces.append(encode_entry(kind, group, type_, entry.time_us, data))
        numbers[entry.scheme, name] = number
        return number
