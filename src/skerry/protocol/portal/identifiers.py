"""Identifiers of publications: `/group/scheme/type/process/thread/`, ended by a NUL.

A frame is an identifier and a payload. A subscription is a prefix of identifiers, so its levels are
given from the left: the group, then the scheme, and so on. Text is UTF-8; other bytes pass through
as surrogate escapes.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from skerry.errors import DecodeError, LimitExceeded, LocalProtocolError

IDENTIFIER_BYTES_MAX: Final = 4096
"""Bytes of an identifier. The names in use have some dozens; a table of identifiers is kept by each
subscriber, so a publisher must not choose their length."""

_INT32_MIN: Final = -(2**31)
_INT32_MAX: Final = 2**31 - 1
_DECIMAL: Final = re.compile(r"-?[0-9]{1,10}")
_THREAD: Final = re.compile(r"[0-9A-Fa-f]{1,16}")
_NO_GROUP_NUMBER: Final = 2**32 - 1
"""The number of a group that has none."""
_PART_COUNT: Final = 5


class Scheme(enum.IntEnum):
    """How a payload is encoded. Other numbers are valid too, and written in decimal."""

    ALL = -2
    """Only in subscriptions by regular expression."""
    NONE = -1
    CSTR = 0
    PROTOBUF = 1
    DCCL = 2
    CXX_OBJECT = 5
    """Only between the threads of a C++ program."""
    MAVLINK = 6
    JSON = 7


_NAMES: Final = {scheme.value: scheme.name for scheme in Scheme if scheme >= 0}
_NUMBERS: Final = {name: number for number, name in _NAMES.items()}
_UNPUBLISHED: Final = frozenset({Scheme.ALL, Scheme.NONE, Scheme.CXX_OBJECT})


def scheme_text(scheme: int) -> str:
    """Return the name of a scheme, or its number in decimal."""
    return _NAMES.get(scheme) or str(int(scheme))


def parse_scheme(text: str) -> int:
    """Return the number of a scheme. Raises ValueError."""
    number = _NUMBERS.get(text)
    if number is not None:
        return number
    found = _int32(text)
    if found is None:
        names = ", ".join(_NUMBERS)
        raise ValueError(f"scheme {text!r:.60} is neither one of {names} nor a decimal number")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifier:
    """The identifier of a publication, all parts valid."""

    group: str
    """Name of the group, with `;NUMBER` behind it if the group has a number too."""
    scheme: int
    type_name: str
    process: int
    thread: int

    def __bytes__(self) -> bytes:
        """As in a frame, without the NUL."""
        return b"%s%d/%x/" % (self.key, self.process, self.thread)

    @property
    def key(self) -> bytes:
        """`/group/scheme/type/`, which most subscriptions give."""
        return prefix(self.group, self.scheme, self.type_name)


def group_text(name: str, number: int | None = None) -> str:
    """Return the group of an identifier. A group with a number is written `name;number`."""
    if number is None or number == _NO_GROUP_NUMBER:
        return name
    return f"{name};{number}"


def prefix(
    group: str | None = None,
    scheme: int | None = None,
    type_name: str | None = None,
    process: int | None = None,
    thread: int | None = None,
) -> bytes:
    """Return the prefix that a subscription gives to its socket; `/` for everything.

    Raises LocalProtocolError for a level without those before it, and for an invalid part.
    """
    levels = (
        group,
        None if scheme is None else scheme_text(scheme),
        type_name,
        None if process is None else str(process),
        None if thread is None else f"{thread:x}",
    )
    given = [level for level in levels if level is not None]
    if None in levels[: len(given)]:
        raise LocalProtocolError(
            "a subscription has a level without the ones before it; the order is group, scheme,"
            " type, process, thread"
        )
    for name, part in (("group", group), ("type", type_name)):
        if part is not None:
            _check_part(name, part)
    return "/".join(["", *given, ""]).encode("utf-8", "surrogateescape")


def publication_head(identifier: Identifier) -> bytes:
    """Return the identifier and the NUL that precede the payload.

    Raises LocalProtocolError or LimitExceeded for one that would harm other programs: the parser of
    Goby ends its process at an invalid one.
    """
    if identifier.scheme in _UNPUBLISHED or not _INT32_MIN <= identifier.scheme <= _INT32_MAX:
        name = Scheme(identifier.scheme).name if identifier.scheme in _UNPUBLISHED else "it"
        raise LocalProtocolError(f"scheme {identifier.scheme} cannot be published: {name}")
    if not _INT32_MIN <= identifier.process <= _INT32_MAX:
        raise LocalProtocolError(f"process id {identifier.process} does not fit into 32 bits")
    if not 0 <= identifier.thread < 2**64:
        raise LocalProtocolError(f"thread id {identifier.thread:x} does not fit into 64 bits")
    made = bytes(identifier)
    if len(made) > IDENTIFIER_BYTES_MAX:
        raise LimitExceeded(
            what="bytes of the identifier", value=len(made), limit=IDENTIFIER_BYTES_MAX
        )
    return made + b"\0"


class Publication(NamedTuple):
    """A received frame."""

    identifier: Identifier
    payload: bytes


def split_frame(frame: bytes) -> tuple[bytes, int]:
    """Return the identifier of a frame, without its NUL, and where the payload starts.

    Raises DecodeError.
    """
    end = frame.find(b"\0", 0, IDENTIFIER_BYTES_MAX + 1)
    if end < 0:
        raise DecodeError(
            type_name="publication",
            detail=f"no NUL ends the identifier within {IDENTIFIER_BYTES_MAX} bytes",
        )
    return frame[:end], end + 1


def read_frame(frame: bytes) -> Publication:
    """Return the parsed identifier and the payload of a frame. Raises DecodeError."""
    head, start = split_frame(frame)
    return Publication(read_identifier(head), frame[start:])


def read_identifier(head: bytes) -> Identifier:
    """Return an identifier without its NUL. Raises DecodeError."""
    parts = head.decode("utf-8", "surrogateescape").split("/")
    if len(parts) != _PART_COUNT + 2 or parts[0] or parts[-1]:
        raise _malformed(f"it is not five parts, each ended by a slash: {head!r:.120}")
    _, group, scheme, type_name, process, thread, _ = parts
    if not group:
        raise _malformed("the group is empty")
    try:
        scheme_number = parse_scheme(scheme)
    except ValueError as error:
        raise _malformed(str(error)) from None
    process_number = _int32(process)
    if process_number is None:
        raise _malformed(f"process {process!r:.60} is not a decimal number of 32 bits")
    if _THREAD.fullmatch(thread) is None:
        raise _malformed(f"thread {thread!r:.60} is not a hexadecimal number of 64 bits")
    return Identifier(
        group=group,
        scheme=scheme_number,
        type_name=type_name,
        process=process_number,
        thread=int(thread, 16),
    )


def _malformed(detail: str) -> DecodeError:
    return DecodeError(type_name="publication", field="identifier", detail=detail)


def _int32(text: str) -> int | None:
    if _DECIMAL.fullmatch(text) is None:
        return None
    number = int(text)
    return number if _INT32_MIN <= number <= _INT32_MAX else None


def _check_part(name: str, part: str) -> None:
    if not part:
        raise LocalProtocolError(f"the {name} is empty; Goby programs need a name")
    if "/" in part or "\0" in part:
        raise LocalProtocolError(
            f"the {name} {part!r:.80} contains a slash or a NUL, which separate the parts of an"
            " identifier"
        )
