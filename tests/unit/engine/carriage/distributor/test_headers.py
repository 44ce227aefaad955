"""Repeated headers are read like all others."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from skerry.errors import DecodeError
from skerry.protocol.access.header import NEVER, Header, read_header, write_header
from skerry.protocol.access.header_repeats import HeaderReader

FIELDS = [name for name in dir(Header("")) if not name.startswith("_")]


def made(name: str = "Tick", sent_time: float = 1.5, **fields: Any) -> bytes:
    header = Header(name)
    header.sent_time = sent_time
    header.attributes = 6
    for field, value in fields.items():
        setattr(header, field, value)
    return write_header(header) + b"the object"


def facts(header: Header) -> dict[str, Any]:
    return {name: getattr(header, name) for name in FIELDS}


def test_all_headers_are_read_alike() -> None:
    reader = HeaderReader()
    for number in range(20):
        for data in (
            made(sent_time=float(number)),
            made(sent_time=float(number), server_sent_time=float(-number)),
            made(sent_time=float(number), server_sent_time=2.0, subject=f"/x/{number // 5}"),
            made("Tock", sent_time=float(number)),
            made("Tock", sent_time=NEVER),
            made("Tock", sent_time=number + 0.5),
        ):
            for _ in range(2):
                header, at = reader.read(data)
                expected, size = read_header(data, 0)
                assert facts(header) == facts(expected)
                assert data[at:] == data[size:] == b"the object"


def test_the_time_never_is_rejected_also_in_a_repeated_header() -> None:
    reader = HeaderReader()
    for number in range(3):
        reader.read(made(sent_time=float(number)))
    forged = made(sent_time=1.5).replace(struct.pack(">d", 1.5), struct.pack(">d", NEVER))
    with pytest.raises(DecodeError, match="no time that was or will be"):
        reader.read(forged)
    header, _ = reader.read(made(sent_time=9.0))
    assert header.sent_time == 9.0


@pytest.mark.parametrize("size", range(19))
def test_a_truncated_header_is_rejected(size: int) -> None:
    reader = HeaderReader()
    for number in range(3):
        reader.read(made(sent_time=float(number)))
    with pytest.raises(DecodeError):
        reader.read(made()[:size])
