"""The header of every transmission, decoded and encoded without a DotsHeader object.

It is decoded for each object that a node or a client receives, so it has special code. The bytes
are those of the type DotsHeader; a test compares the two.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_f64_be
from mypy_extensions import i64, u8

from skerry.codec import kinds
from skerry.codec.decoder import read_float
from skerry.codec.encoder import write_head
from skerry.codec.heads import describe, read_argument, read_count, read_span, read_tag, skip
from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan, refuse_bytes
from skerry.limits import STRUCT_ENTRY_COUNT_MAX, TAG_MAX

ABSENT: Final = -1
"""The value of numbers that the header does not have; valid ones are not negative."""

NEVER: Final = -1e300
"""The value of times that the header does not have."""

TYPE_NAME: Final = 1
SENT_TIME: Final = 2
ATTRIBUTES: Final = 3
REMOVE_OBJ: Final = 4
SENDER: Final = 5
IS_FROM_MYSELF: Final = 6
SERVER_SENT_TIME: Final = 7
FROM_CACHE: Final = 8
SUBSCRIPTION_ID: Final = 9
SUBJECT: Final = 20
SEQUENCE: Final = 21
POSITION: Final = 22
NODE: Final = 23

_NAMES: Final = {
    TYPE_NAME: "typeName",
    SENT_TIME: "sentTime",
    ATTRIBUTES: "attributes",
    REMOVE_OBJ: "removeObj",
    SENDER: "sender",
    IS_FROM_MYSELF: "isFromMyself",
    SERVER_SENT_TIME: "serverSentTime",
    FROM_CACHE: "fromCache",
    SUBSCRIPTION_ID: "subscriptionId",
    SUBJECT: "subject",
    SEQUENCE: "sequence",
    POSITION: "position",
    NODE: "node",
}
# Only for the names of type and field in errors.
_PLAN: Final = StructPlan("DotsHeader", object, [], None)
_FIELDS: Final = {
    tag: FieldPlan(tag, name, name, False, ValuePlan(0, name)) for tag, name in _NAMES.items()
}
_TIME: Final = ValuePlan(kinds.TIMEPOINT, "timepoint")
_KNOWN: Final = sum(1 << tag for tag in _NAMES)


class Header:
    def __init__(self, type_name: str) -> None:
        self.type_name: str = type_name
        self.sent_time: float = NEVER
        self.server_sent_time: float = NEVER
        self.attributes: i64 = ABSENT
        self.sender: i64 = ABSENT
        self.from_cache: i64 = ABSENT
        self.remove_obj: i64 = ABSENT
        self.is_from_myself: i64 = ABSENT
        self.subscription_id: i64 = ABSENT
        self.subject: str = ""
        self.sequence: i64 = ABSENT
        self.position: i64 = ABSENT
        self.node: i64 = 0
        """Signed; 0 if absent."""


def copy_header(known: Header) -> Header:
    header = Header(known.type_name)
    header.sent_time = known.sent_time
    header.server_sent_time = known.server_sent_time
    header.attributes = known.attributes
    header.sender = known.sender
    header.from_cache = known.from_cache
    header.remove_obj = known.remove_obj
    header.is_from_myself = known.is_from_myself
    header.subscription_id = known.subscription_id
    header.subject = known.subject
    header.sequence = known.sequence
    header.position = known.position
    header.node = known.node
    return header


def read_header(data: bytes, start: int) -> tuple[Header, int]:
    """Decode the header at `start`; return it with the offset of its object."""
    header = Header("")
    end: i64 = len(data)
    count, pos = read_count(_PLAN, None, data, start, end, 0xA0, STRUCT_ENTRY_COUNT_MAX)
    seen: i64 = 0
    while count > 0:
        count -= 1
        tag, pos = read_tag(_PLAN, data, pos, end)
        if tag > TAG_MAX or not (_KNOWN >> tag) & 1:
            pos = skip(_PLAN, data, pos, end)
            continue
        if (seen >> tag) & 1:
            refuse_bytes(_PLAN, _FIELDS[tag], f"tag {int(tag)} comes twice", pos)
        seen |= i64(1) << tag
        if tag == TYPE_NAME or tag == SUBJECT:
            stop, begin = read_span(_PLAN, _FIELDS[tag], data, pos, end, 0x60)
            text = data[begin:stop].decode("utf-8", "surrogateescape")
            if tag == TYPE_NAME:
                header.type_name = text
            else:
                header.subject = text
            pos = stop
        elif tag == SENT_TIME or tag == SERVER_SENT_TIME:
            if pos >= end:
                refuse_bytes(_PLAN, _FIELDS[tag], "the bytes end before the value", pos)
            time, pos = read_float(_PLAN, _FIELDS[tag], _TIME, data, pos, end)
            if time == NEVER:
                refuse_bytes(_PLAN, _FIELDS[tag], "no time that was or will be", pos)
            if tag == SENT_TIME:
                header.sent_time = time
            else:
                header.server_sent_time = time
        elif tag == REMOVE_OBJ or tag == IS_FROM_MYSELF:
            if pos >= end:
                refuse_bytes(_PLAN, _FIELDS[tag], "the bytes end before the value", pos)
            first: i64 = data[pos]
            if first != 0xF4 and first != 0xF5:
                refuse_bytes(_PLAN, _FIELDS[tag], f"expected a bool, found {describe(first)}", pos)
            if tag == REMOVE_OBJ:
                header.remove_obj = first & 1
            else:
                header.is_from_myself = first & 1
            pos += 1
        else:
            pos = _read_number(header, tag, data, pos, end)
    return header, pos


def _read_number(header: Header, tag: i64, data: bytes, pos: i64, end: i64) -> i64:
    field = _FIELDS[tag]
    major: i64 = 0x00
    if tag == NODE and pos < end and data[pos] & 0xE0 == 0x20:
        major = 0x20
    number, after = read_argument(_PLAN, field, data, pos, end, major)
    if number < 0 or (tag < SUBJECT and number > 0xFFFFFFFF):
        refuse_bytes(_PLAN, field, "a number that is too large", pos)
    if tag == ATTRIBUTES:
        header.attributes = number
    elif tag == SENDER:
        header.sender = number
    elif tag == FROM_CACHE:
        header.from_cache = number
    elif tag == SUBSCRIPTION_ID:
        header.subscription_id = number
    elif tag == SEQUENCE:
        header.sequence = number
    elif tag == POSITION:
        header.position = number
    else:
        header.node = number if major == 0 else -1 - number
    return after


def write_header(header: Header) -> bytes:
    """Encode the header, with its fields in the order of the type."""
    writer = BytesWriter()
    write_head(writer, 0xA0, _count(header))
    name = header.type_name.encode("utf-8", "surrogateescape")
    writer.append(u8(TYPE_NAME))
    write_head(writer, 0x60, len(name))
    writer.write(name)
    _write_time(writer, SENT_TIME, header.sent_time)
    _write_time(writer, SERVER_SENT_TIME, header.server_sent_time)
    _write_number(writer, ATTRIBUTES, header.attributes)
    _write_number(writer, SENDER, header.sender)
    _write_number(writer, FROM_CACHE, header.from_cache)
    _write_bool(writer, REMOVE_OBJ, header.remove_obj)
    _write_bool(writer, IS_FROM_MYSELF, header.is_from_myself)
    _write_number(writer, SUBSCRIPTION_ID, header.subscription_id)
    if header.subject:
        subject = header.subject.encode("utf-8", "surrogateescape")
        writer.append(u8(SUBJECT))
        write_head(writer, 0x60, len(subject))
        writer.write(subject)
    _write_number(writer, SEQUENCE, header.sequence)
    _write_number(writer, POSITION, header.position)
    if header.node:
        writer.append(u8(NODE))
        if header.node > 0:
            write_head(writer, 0x00, header.node)
        else:
            write_head(writer, 0x20, -1 - header.node)
    return writer.getvalue()


def _count(header: Header) -> i64:
    count: i64 = 1
    for is_there in (
        header.sent_time != NEVER,
        header.server_sent_time != NEVER,
        header.attributes >= 0,
        header.sender >= 0,
        header.from_cache >= 0,
        header.remove_obj >= 0,
        header.is_from_myself >= 0,
        header.subscription_id >= 0,
        header.subject != "",
        header.sequence >= 0,
        header.position >= 0,
        header.node != 0,
    ):
        if is_there:
            count += 1
    return count


def _write_time(writer: BytesWriter, tag: i64, value: float) -> None:
    if value != NEVER:
        writer.append(u8(tag))
        writer.append(u8(0xFB))
        write_f64_be(writer, value)


def _write_number(writer: BytesWriter, tag: i64, value: i64) -> None:
    if value >= 0:
        writer.append(u8(tag))
        write_head(writer, 0x00, value)


def _write_bool(writer: BytesWriter, tag: i64, value: i64) -> None:
    if value >= 0:
        writer.append(u8(tag))
        writer.append(u8(0xF4 | value))
