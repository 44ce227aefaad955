"""The JSON framing of WebSockets: a transmission is one text message `[ header, object ]`.

The other parts of a node use a header and an encoded object, so this framing converts between the
two. For that it looks up the type by name for each message, because the type may have become known
just before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from skerry.codec.codec import Codec
from skerry.errors import DecodeError, EncodeError
from skerry.limits import FRAME_BYTES_MAX, JSON_PIECE_BYTES, JSON_STEP_BYTES
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header, read_header, write_header
from skerry.protocol.access.json.objects import object_from_plain, object_text
from skerry.protocol.access.json.reading import JsonReading, unreadable
from skerry.protocol.access.json.text import parse_text
from skerry.protocol.access.wire import Wire
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, StructType

_LENGTH_BYTES: Final = 4


class JsonWire(Wire):
    """Transmissions as JSON text. `types` has the types by name, and may grow.

    Each call of `feed` gets one message without a frame. A frame is a message after its length,
    because frames are joined when they are sent: `cut_messages` separates them.

    `frame` raises EncodeError if an object cannot be written for the peer.
    """

    def __init__(
        self,
        types: Mapping[str, NamedType],
        *,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        super().__init__(frame_bytes_max)
        # Not a version of the binary framing.
        self.version = 0
        self.has_additions = False
        """Whether the peer announced our additions. It then receives JSON that every parser
        accepts; other peers receive and send `inf` and `nan` as DOTS hosts do."""
        self.definition: Callable[[str], NamedType | None] | None = None
        """Returns the peer's definition of a type, which may differ from the served one."""
        self._types = types
        self._bytes_max = frame_bytes_max
        self.read_bytes_max = frame_bytes_max
        """The longest message that is accepted."""
        self.skips_large = False
        """Whether messages above the limit are skipped; the WebSocket reader does that."""
        self._header_codec = codec_of(internal_class("DotsHeader"))

    def limit_frames(self, frame_bytes_max: int, *, skips_large: bool) -> None:
        """Change the limit for received messages; the limit for sent ones stays."""
        self.read_bytes_max = frame_bytes_max
        self.skips_large = skips_large

    def frame(self, header: Header, payload: bytes) -> bytes:
        """Return a transmission after its length; EncodeError if it cannot be written."""
        codec = self.codec_of_sent(header.type_name)
        return framed(self.message(write_header(header), codec, payload))

    def message(self, header: bytes, codec: Codec, payload: bytes) -> bytes:
        """Return the text of a transmission; EncodeError if it is too large."""
        text = f"[ {self.header_text(header)}, {self._text(codec, payload)} ]"
        # Bytes of a string that are not UTF-8 are surrogates here, and become JSON escapes.
        message = text.encode("utf-8", "backslashreplace")
        self.check_size(codec.plan.name, len(message))
        return message

    def header_text(self, header: bytes) -> str:
        return self._text(self._header_codec, header)

    def check_size(self, type_name: str, size: int) -> None:
        """Raise EncodeError if a message is too large for the peer."""
        if size > self._bytes_max:
            detail = f"{size} bytes as JSON, the limit is {self._bytes_max}"
            raise EncodeError(type_name=type_name, field="", detail=detail)

    def codec_of_sent(self, type_name: str) -> Codec:
        """Return the codec of a type whose object is sent; EncodeError if it is unknown."""
        codec = self._codec(type_name)
        if codec is None:
            detail = "there is no such type, so its fields have no names"
            raise EncodeError(type_name=type_name, field="", detail=detail)
        return codec

    def reading(self, data: bytes) -> JsonReading | None:
        """Return a reader of a large message in steps; None for one that is read at once."""
        return self.begin_reading(data) if len(data) > JSON_STEP_BYTES else None

    def begin_reading(self, data: bytes, *, piece_bytes: int = JSON_PIECE_BYTES) -> JsonReading:
        """Return a reader of a message in steps of `piece_bytes`."""
        return JsonReading(
            data,
            self._header_codec,
            self._codec_for,
            bytes_max=self.read_bytes_max,
            piece_bytes=piece_bytes,
        )

    def _read(self, data: bytes, arrived: list[tuple[Header, bytes]]) -> None:
        # A call without bytes only asks for an earlier fault.
        if not data:
            return
        if len(data) > self.read_bytes_max:
            detail = f"a message of {len(data)} bytes, the limit is {self.read_bytes_max}"
            raise DecodeError(type_name="JSON", detail=detail)
        plain = parse_text(data)
        if not isinstance(plain, list) or len(plain) != 2:
            raise DecodeError(type_name="JSON", detail="expected [ header, object ]")
        # Encoded and decoded again, so that it is checked as in the other framings.
        header, _ = read_header(self._encoded(self._header_codec, plain[0]), 0)
        arrived.append((header, self._encoded(self._codec_for(header), plain[1])))

    def _codec_for(self, header: Header) -> Codec:
        """Return the codec of the object of a header; DecodeError if its type is unknown."""
        if not header.type_name:
            raise DecodeError(type_name="DotsHeader", field="typeName", detail="is missing")
        codec = self._codec(header.type_name)
        if codec is None:
            detail = "there is no such type; describe it before its first object"
            raise DecodeError(type_name=header.type_name, detail=detail)
        return codec

    def _codec(self, type_name: str) -> Codec | None:
        type_ = internal_types().get(type_name)
        if type_ is None and self.definition is not None:
            type_ = self.definition(type_name)
        if type_ is None:
            type_ = self._types.get(type_name)
        return codec_of(class_of(type_)) if isinstance(type_, StructType) else None

    def _text(self, codec: Codec, data: bytes) -> str:
        return object_text(codec.plan, codec.decode(data), is_strict=self.has_additions)

    def _encoded(self, codec: Codec, plain: object) -> bytes:
        obj = object_from_plain(codec.plan, plain)
        try:
            return codec.encode(obj)
        except EncodeError as error:
            raise unreadable(error) from None


def framed(message: bytes) -> bytes:
    """Return a message after its length."""
    return len(message).to_bytes(_LENGTH_BYTES, "big") + message


def cut_messages(data: bytes) -> list[bytes]:
    """Return the messages of joined frames."""
    messages = []
    start = 0
    while start < len(data):
        begin = start + _LENGTH_BYTES
        start = begin + int.from_bytes(data[start:begin], "big")
        messages.append(data[begin:start])
    assert start == len(data), "frames are complete"
    return messages
