"""The node's end of a JSON connection: frames are queued as bytes, and become text in steps.

Writing an object of megabytes as JSON takes a second. So a frame for a WebSocket client is queued
with its header and object still encoded, which costs the publisher no more than any other
subscriber. The text is made in the turns of the client itself, piece by piece.
"""

from __future__ import annotations

import binascii
import struct
from collections.abc import Generator, Iterator
from typing import Any, Final

from skerry.codec.codec import Codec
from skerry.codec.decoder import decode_value
from skerry.codec.heads import read_count, read_span, read_tag, skip
from skerry.codec.plans import FieldPlan, StructPlan, ValuePlan
from skerry.errors import EncodeError
from skerry.limits import (
    JSON_PIECE_BYTES,
    JSON_STEP_BYTES,
    STRUCT_ENTRY_COUNT_MAX,
    VECTOR_COUNT_MAX,
)
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header, write_header
from skerry.protocol.access.json.objects import quoted_name, string_part, value_text
from skerry.protocol.access.json.wire import JsonWire, framed
from skerry.schema.model import Kind

_HEAD: Final = struct.Struct(">III")
"""Precedes a queued frame: the number of its codec, and the sizes of its header and object."""
_LOOKS_PER_FRAME: Final = 15
_BYTES_PER_LOOK: Final = 8
"""Encoded bytes that are written as JSON in the time of a look, the unit of a turn."""
_TEXT_BYTES_PER_LOOK: Final = 64
"""The same for text and bytes, which are not processed one by one."""
_RUN_COUNT: Final = 200
"""The count of numbers that are written in one piece."""
_BASE64_BYTES: Final = JSON_PIECE_BYTES // 3 * 3

_Pieces = Generator[tuple[str, int], None, int]
"""Pieces of text, each with the looks that it took; the result is the end of the value."""


class JsonNodeWire(JsonWire):
    """The framing of a WebSocket client. `writing` converts the result of `frame` to text.

    An object that cannot be written raises no error: a client that knows our additions receives a
    SkerryRefusal in place of the object, and for a foreign client `unsendable` has the reason to
    close its connection.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._numbers: dict[Codec, int] = {}
        """The codecs of the queued frames. A type may change before its objects are written."""

    def frame(self, header: Header, payload: bytes) -> bytes:
        """Return a transmission in the form in which it is queued."""
        try:
            codec = self.codec_of_sent(header.type_name)
        except EncodeError as error:
            if not self.has_additions:
                self.unsendable = self.unsendable or str(error)
                return b""
            header, payload = _refusal(header.type_name, error)
            codec = self.codec_of_sent(header.type_name)
        number = self._numbers.setdefault(codec, len(self._numbers))
        data = write_header(header)
        return b"".join((_HEAD.pack(number, len(data), len(payload)), data, payload))

    def writing(self, data: bytes) -> JsonWriting:
        """Return a writer of all queued frames."""
        codecs, self._numbers = list(self._numbers), {}
        return JsonWriting(self, data, codecs)

    def text(self, data: bytes) -> bytes:
        """Return the text of all queued frames at once; each message is after its length."""
        writing, parts = self.writing(data), []
        while not writing.is_done:
            parts.append(writing.step(len(data) + 1)[0])
        return b"".join(parts)


class JsonWriting:
    """Queued frames that become text in steps."""

    def __init__(self, wire: JsonNodeWire, data: bytes, codecs: list[Codec]) -> None:
        self._wire = wire
        self._data = data
        self._codecs = codecs
        self._written: list[bytes] = []
        self._work = self._write()
        self.is_done = False

    def step(self, look_count: int) -> tuple[bytes, int]:
        """Write for up to `look_count` looks. Return complete messages, each after its length, and
        the looks that they took."""
        looks = 0
        while looks < look_count:
            taken = next(self._work, None)
            if taken is None:
                self.is_done = True
                break
            looks += taken
        written, self._written = b"".join(self._written), []
        return written, looks

    def _write(self) -> Iterator[int]:
        data, pos = self._data, 0
        while pos < len(data) and not self._wire.unsendable:
            number, header_size, size = _HEAD.unpack_from(data, pos)
            begin = pos + _HEAD.size + header_size
            header = data[pos + _HEAD.size : begin]
            pos = begin + size
            yield from self._write_frame(header, self._codecs[number], data[begin:pos])

    def _write_frame(self, header: bytes, codec: Codec, payload: bytes) -> Iterator[int]:
        wire, looks = self._wire, _LOOKS_PER_FRAME
        try:
            if len(payload) <= JSON_STEP_BYTES:
                looks += len(payload) // _BYTES_PER_LOOK
                self._written.append(framed(wire.message(header, codec, payload)))
            else:
                yield from self._write_large(header, codec, payload)
        except EncodeError as error:
            if wire.has_additions:
                replaced, refusal = _refusal(codec.plan.name, error)
                codec = wire.codec_of_sent(replaced.type_name)
                message = wire.message(write_header(replaced), codec, refusal)
                self._written.append(framed(message))
            else:
                wire.unsendable = wire.unsendable or str(error)
        yield looks

    def _write_large(self, header: bytes, codec: Codec, payload: bytes) -> Iterator[int]:
        wire = self._wire
        text = bytearray(f"[ {wire.header_text(header)}, ".encode())
        for piece, looks in _struct_pieces(codec.plan, payload, 0, wire.has_additions):
            text += piece.encode("utf-8", "backslashreplace")
            wire.check_size(codec.plan.name, len(text))
            yield looks
        text += b" ]"
        wire.check_size(codec.plan.name, len(text))
        self._written.append(framed(bytes(text)))


def _refusal(type_name: str, error: EncodeError) -> tuple[Header, bytes]:
    refusal = internal_class("SkerryRefusal")(what=type_name, reason=str(error))
    header = Header("SkerryRefusal")
    header.attributes = int(refusal.attributes)
    return header, refusal.encode()


# -- pieces of text


def _struct_pieces(plan: StructPlan, data: bytes, pos: int, is_strict: bool) -> _Pieces:
    end = len(data)
    count, pos = read_count(plan, None, data, pos, end, 0xA0, STRUCT_ENTRY_COUNT_MAX)
    before = "{ "
    for _ in range(count):
        tag, pos = read_tag(plan, data, pos, end)
        field = plan.by_tag[tag] if tag < len(plan.by_tag) else None
        if field is None:
            pos = skip(plan, data, pos, end)
            continue
        yield f"{before}{quoted_name(field.name)}: ", 1
        before = ", "
        pos = yield from _value_pieces(plan, field, field.value, data, pos, is_strict)
    yield ("{ }" if before == "{ " else " }"), 1
    return pos


def _value_pieces(
    plan: StructPlan, field: FieldPlan, spec: ValuePlan, data: bytes, pos: int, is_strict: bool
) -> _Pieces:
    kind = spec.kind
    if kind == Kind.VECTOR:
        return (yield from _vector_pieces(plan, field, spec, data, pos, is_strict))
    if kind == Kind.STRUCT:
        assert spec.struct is not None
        return (yield from _struct_pieces(spec.struct, data, pos, is_strict))
    if kind in (Kind.STRING, Kind.BYTES):
        major = 0x60 if kind == Kind.STRING else 0x40
        stop, begin = read_span(plan, field, data, pos, len(data), major)
        if stop - begin > JSON_PIECE_BYTES:
            cut = _string_pieces if kind == Kind.STRING else _base64_pieces
            yield from cut(data, begin, stop)
            return stop
    value, stop = decode_value(plan, field, data, pos, spec)
    if kind in (Kind.ANY, Kind.REF) and stop - pos > JSON_PIECE_BYTES:
        yield from _pair_pieces(value, is_any=kind == Kind.ANY)
    else:
        yield value_text(spec, value, is_strict), 1 + (stop - pos) // _TEXT_BYTES_PER_LOOK
    return stop


def _vector_pieces(
    plan: StructPlan, field: FieldPlan, spec: ValuePlan, data: bytes, pos: int, is_strict: bool
) -> _Pieces:
    element = spec.element
    assert element is not None
    count, pos = read_count(plan, field, data, pos, len(data), 0x80, VECTOR_COUNT_MAX)
    before = "[ "
    if element.kind in _LARGE_KINDS:
        for _ in range(count):
            yield before, 0
            before = ", "
            pos = yield from _value_pieces(plan, field, element, data, pos, is_strict)
    else:
        for start in range(0, count, _RUN_COUNT):
            texts = []
            for _ in range(min(_RUN_COUNT, count - start)):
                value, pos = decode_value(plan, field, data, pos, element)
                texts.append(value_text(element, value, is_strict))
            yield before + ", ".join(texts), len(texts)
            before = ", "
    yield (" ]" if count else "[ ]"), 1
    return pos


_LARGE_KINDS: Final = frozenset(
    {Kind.STRING, Kind.BYTES, Kind.VECTOR, Kind.STRUCT, Kind.ANY, Kind.REF}
)
"""Kinds of values without a bound of their size."""


def _string_pieces(data: bytes, pos: int, stop: int) -> Iterator[tuple[str, int]]:
    yield '"', 1
    while pos < stop:
        end = min(pos + JSON_PIECE_BYTES, stop)
        # A character, which has at most four bytes, must not be cut in two.
        for _ in range(3):
            if end < stop and data[end] & 0xC0 == 0x80:
                end -= 1
        yield string_part(data[pos:end]), (end - pos) // _TEXT_BYTES_PER_LOOK
        pos = end
    yield '"', 1


def _base64_pieces(data: bytes, pos: int, stop: int) -> Iterator[tuple[str, int]]:
    yield '"', 1
    for begin in range(pos, stop, _BASE64_BYTES):
        part = data[begin : min(begin + _BASE64_BYTES, stop)]
        text = binascii.b2a_base64(part, newline=False).decode("ascii")
        yield text, len(part) // _TEXT_BYTES_PER_LOOK
    yield '"', 1


def _pair_pieces(value: Any, *, is_any: bool) -> Iterator[tuple[str, int]]:
    second, data = ("payload", value.payload) if is_any else ("key", value.key)
    yield '{ "typeName": ', 1
    name = value.type_name.encode("utf-8", "surrogateescape")
    yield from _string_pieces(name, 0, len(name))
    yield f', "{second}": ', 1
    yield from _base64_pieces(data, 0, len(data))
    yield " }", 1
