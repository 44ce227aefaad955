"""CBOR without types: for fingerprints, and for payloads of undescribed types."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from skerry import cbor


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (["T", [True, False], 3, [], -5], "8561548" + "2f5f4" + "038024"),
        ({2: "b", 1: "a"}, "a2026162" + "016161"),
        (2**64 - 1, "1bffffffffffffffff"),
        (b"\x00", "4100"),
        (1.5, "fb3ff8000000000000"),
        (None, "f6"),
    ],
)
def test_values_are_encoded_and_decoded(value: Any, text: str) -> None:
    assert cbor.dumps(value).hex() == text
    assert cbor.loads(bytes.fromhex(text)) == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x81",
        b"\x01\x02",
        b"\xff",
        b"\x1c",
        b"\x9f\x01",
        b"\x81" * 100_000,
        b"\x9b" + b"\xff" * 8,
        b"\x5b\x7f" + b"\xff" * 7,
        b"\xc0\x61x",
        b"\xc4\x01",
        b"\xd8\x23\x61[",
        b"\xd9\x01\x04\x41\x00",
    ],
    ids=lambda data: data[:4].hex(),
)
def test_bytes_that_are_not_one_item_are_refused(data: bytes) -> None:
    with pytest.raises(cbor.CBORError):
        cbor.loads(data)


def test_bytes_after_an_item_are_an_error() -> None:
    with pytest.raises(cbor.CBORError, match="2 bytes follow the item"):
        cbor.loads(b"\x01\x02\x03")


@pytest.mark.slow
def test_no_bytes_bring_another_error() -> None:
    rng = Random(7)
    for _ in range(20_000):
        data = rng.randbytes(rng.randrange(1, 24))
        try:
            cbor.loads(data)
        except cbor.CBORError:
            continue
