"""What programs publish and receive."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pb2

from skerry.client.portal.publications import PortalPublication, encode_content
from skerry.errors import DecodeError, EncodeError, LocalProtocolError
from skerry.portal import Config, Connection, Identifier, Scheme, group_text
from skerry.protocol.portal.identifiers import read_frame

Proto = descriptor_pb2.FileDescriptorProto
NAME = "google.protobuf.FileDescriptorProto"


def test_scheme_and_type_follow_from_the_content() -> None:
    assert encode_content("text", None, None) == (Scheme.CSTR, "CSTR", b"text\0")
    message = Proto(name="a")
    assert encode_content(message, None, None) == (Scheme.PROTOBUF, NAME, b"\x0a\x01a")
    assert encode_content(message, Scheme.DCCL, NAME)[0] == Scheme.DCCL
    assert encode_content({"k": 5}, None, None) == (
        Scheme.JSON,
        "nlohmann::json",
        b"\x0c\x00\x00\x00\x10k\x00\x05\x00\x00\x00\x00",
    )
    assert encode_content({}, None, "Own")[1] == "Own"
    assert encode_content(bytearray(b"x"), 99, "t") == (99, "t", b"x")


@pytest.mark.parametrize(
    ("content", "scheme", "type_name"),
    [
        (b"x", None, "t"),
        (b"x", 1, None),
        (5, None, None),
        ("text", Scheme.JSON, None),
        ({}, Scheme.CSTR, None),
        (Proto(), None, "other"),
    ],
)
def test_what_cannot_be_published_is_refused(
    content: object, scheme: int | None, type_name: str | None
) -> None:
    with pytest.raises(LocalProtocolError):
        encode_content(content, scheme, type_name)


def test_a_message_without_a_required_field_is_refused() -> None:
    part = descriptor_pb2.UninterpretedOption.NamePart()
    with pytest.raises(EncodeError, match="name_part"):
        encode_content(part, None, None)


def test_a_publication_is_read_as_text_or_message() -> None:
    one = PortalPublication(*read_frame(b"/g/CSTR/CSTR/1/1/\0text\0"))
    assert (one.group, one.scheme, one.type_name, one.text()) == ("g", 0, "CSTR", "text")
    assert PortalPublication(one.identifier, b"").text() == ""
    made = encode_content({"k": [1, None, "x"]}, None, None)[2]
    assert PortalPublication(one.identifier, made).json() == {"k": [1, None, "x"]}
    other = PortalPublication(one.identifier, b"\x0a\x01a")
    assert other.message(Proto).name == "a"
    with pytest.raises(DecodeError):
        PortalPublication(one.identifier, b"\xff").message(Proto)
    assert isinstance(one.identifier, Identifier)


def test_the_public_names_are_there() -> None:
    assert Config(platform="auv").platform == "auv"
    assert Connection.__name__ == "PortalConnection"
    assert group_text("a", 1) == "a;1"
