"""Identifiers of publications: parts, prefixes, and what is refused."""

from __future__ import annotations

import pytest

from skerry.errors import DecodeError, LimitExceeded, LocalProtocolError
from skerry.protocol.portal.identifiers import (
    IDENTIFIER_BYTES_MAX,
    Identifier,
    Publication,
    Scheme,
    group_text,
    parse_scheme,
    prefix,
    publication_head,
    read_frame,
    scheme_text,
    split_frame,
)

POSITION = Identifier(
    group="position", scheme=Scheme.PROTOBUF, type_name="nav.Fix", process=42, thread=0xABC
)


def test_an_identifier_has_five_parts() -> None:
    assert bytes(POSITION) == b"/position/PROTOBUF/nav.Fix/42/abc/"
    assert POSITION.key == b"/position/PROTOBUF/nav.Fix/"
    frame = publication_head(POSITION) + b"data\0more"
    assert read_frame(frame) == Publication(POSITION, b"data\0more")
    assert split_frame(frame) == (bytes(POSITION), len(bytes(POSITION)) + 1)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ((), b"/"),
        (("g",), b"/g/"),
        (("g", 7), b"/g/JSON/"),
        (("g", 99), b"/g/99/"),
        (("g", 0, "CSTR"), b"/g/CSTR/CSTR/"),
        (("g", 2, "a.B", 5), b"/g/DCCL/a.B/5/"),
        (("g", 6, "24", 5, 0xFF), b"/g/MAVLINK/24/5/ff/"),
    ],
)
def test_a_prefix_ends_with_a_slash_at_each_level(
    levels: tuple[object, ...], expected: bytes
) -> None:
    assert prefix(*levels) == expected  # type: ignore[arg-type]


def test_a_level_needs_the_ones_before_it() -> None:
    with pytest.raises(LocalProtocolError, match="without the ones before"):
        prefix("g", type_name="T")


def test_a_group_may_have_a_number() -> None:
    assert group_text("groupB", 2) == "groupB;2"
    assert group_text("groupB") == group_text("groupB", 2**32 - 1) == "groupB"


@pytest.mark.parametrize("scheme", [0, 1, 2, 3, 4, 5, 6, 7, 8, 12345, -7])
def test_schemes_are_names_or_decimal_numbers(scheme: int) -> None:
    assert parse_scheme(scheme_text(scheme)) == scheme


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"/",
        b"no slash",
        b"/g/PROTOBUF/T/1/",
        b"/g/PROTOBUF/T/1/a",
        b"/g/PROTOBUF/T/1/a/b/",
        b"/g/x/PROTOBUF/T/1/a/",
        b"//PROTOBUF/T/1/a/",
        b"/g/protobuf/T/1/a/",
        b"/g/99999999999/T/1/a/",
        b"/g/PROTOBUF/T/one/a/",
        b"/g/PROTOBUF/T/2147483648/a/",
        b"/g/PROTOBUF/T//a/",
        b"/g/PROTOBUF/T/1//",
        b"/g/PROTOBUF/T/1/xyz/",
        b"/g/PROTOBUF/T/1/12345678901234567/",
        b"/g/PROTOBUF/T/\xd9\xa1/a/",
    ],
)
def test_a_malformed_identifier_is_refused(head: bytes) -> None:
    with pytest.raises(DecodeError):
        read_frame(head + b"\0data")


def test_a_frame_without_a_nul_is_refused() -> None:
    with pytest.raises(DecodeError, match="no NUL"):
        read_frame(bytes(POSITION))
    with pytest.raises(DecodeError, match="no NUL"):
        read_frame(b"/" + b"g" * IDENTIFIER_BYTES_MAX + b"/PROTOBUF/T/1/a/\0")


def test_bytes_that_are_not_text_pass_through() -> None:
    found = read_frame(b"/g\xff/JSON/t\xfe/1/a/\0")
    assert publication_head(found.identifier) == b"/g\xff/JSON/t\xfe/1/a/\0"


@pytest.mark.parametrize(
    "changed",
    [
        {"group": ""},
        {"group": "a/b"},
        {"group": "a\0b"},
        {"type_name": "a/b"},
        {"scheme": Scheme.ALL},
        {"scheme": Scheme.CXX_OBJECT},
        {"scheme": 2**31},
        {"process": 2**31},
        {"thread": 2**64},
        {"thread": -1},
    ],
)
def test_what_would_end_goby_programs_is_not_published(changed: dict[str, object]) -> None:
    from dataclasses import replace

    with pytest.raises(LocalProtocolError):
        publication_head(replace(POSITION, **changed))  # type: ignore[arg-type]


def test_an_identifier_is_bounded() -> None:
    with pytest.raises(LimitExceeded):
        publication_head(
            Identifier(
                group="g" * IDENTIFIER_BYTES_MAX, scheme=7, type_name="T", process=1, thread=1
            )
        )
