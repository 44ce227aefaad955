"""What a program publishes and receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from google.protobuf.message import DecodeError as ProtobufError
from google.protobuf.message import EncodeError as ProtobufEncodeError
from google.protobuf.message import Message

from skerry.codec.bson import decode_bson, encode_bson
from skerry.errors import DecodeError, EncodeError, LocalProtocolError
from skerry.protocol.portal.identifiers import Identifier, Scheme

M = TypeVar("M", bound=Message)

CSTR_TYPE: Final = "CSTR"
"""The type name of texts."""
JSON_TYPE: Final = "nlohmann::json"
"""The type name of objects without one of their own."""


@dataclass(frozen=True, slots=True)
class PortalPublication:
    """A received publication."""

    identifier: Identifier
    payload: bytes

    @property
    def group(self) -> str:
        return self.identifier.group

    @property
    def scheme(self) -> int:
        return self.identifier.scheme

    @property
    def type_name(self) -> str:
        return self.identifier.type_name

    def text(self) -> str:
        """The text of a publication of scheme CSTR, without the NUL at its end."""
        return self.payload[:-1].decode("utf-8", "surrogateescape")

    def json(self) -> dict[str, Any]:
        """The object of a publication of scheme JSON, which is BSON. Raises DecodeError."""
        return decode_bson(self.payload)

    def message(self, cls: type[M]) -> M:
        """The payload as a message of Protocol Buffers. Raises DecodeError."""
        found = cls()
        try:
            found.ParseFromString(self.payload)
        except ProtobufError as error:
            raise DecodeError(type_name=cls.DESCRIPTOR.full_name, detail=str(error)) from None
        return found


OnPublication = Callable[[PortalPublication], object]


def encode_content(
    content: object, scheme: int | None, type_name: str | None
) -> tuple[int, str, bytes]:
    """Return scheme, type name and payload of what a program publishes.

    Raises LocalProtocolError if they are not given and do not follow from the content, and
    EncodeError for a message without its required fields, or a value that BSON does not have.
    """
    if isinstance(content, Message):
        name = content.DESCRIPTOR.full_name
        if type_name is not None and type_name != name:
            raise LocalProtocolError(f"the type of the message is {name}, not {type_name}")
        try:
            payload: Any = content.SerializeToString()
        except ProtobufEncodeError as error:
            raise EncodeError(type_name=name, field="", detail=str(error)) from None
        return Scheme.PROTOBUF if scheme is None else scheme, name, payload
    if isinstance(content, dict):
        if scheme not in (None, Scheme.JSON):
            raise LocalProtocolError(f"an object is of scheme JSON, not {scheme}")
        return Scheme.JSON, type_name or JSON_TYPE, encode_bson(content)
    if isinstance(content, str):
        if scheme not in (None, Scheme.CSTR):
            raise LocalProtocolError(f"a text is of scheme CSTR, not {scheme}; publish its bytes")
        payload = content.encode("utf-8", "surrogateescape") + b"\0"
        return Scheme.CSTR, type_name or CSTR_TYPE, payload
    if isinstance(content, bytes | bytearray | memoryview):
        if scheme is None or type_name is None:
            raise LocalProtocolError("bytes need a scheme and a type name")
        return scheme, type_name, bytes(content)
    raise LocalProtocolError(
        f"a {type(content).__name__} cannot be published; publish a text, a dictionary, a"
        " message of Protocol Buffers, or bytes"
    )
