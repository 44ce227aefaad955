"""The only module that uses the CBOR library.

`skerry.codec` encodes and decodes objects by their types. This module serves values without a type:
fingerprints, and payloads whose type was not described.
"""

from __future__ import annotations

import io
from typing import Any

import cbor2

CBORError = cbor2.CBORDecodeError
"""Raised by `loads` for bytes that are not one CBOR item."""


def dumps(value: object) -> bytes:
    """Encode a value in its shortest form, with map entries in the given order."""
    return cbor2.dumps(value)


def loads(data: bytes) -> Any:
    """Decode the one item that `data` holds to Python values."""
    stream = io.BytesIO(data)
    value = cbor2.load(stream)
    rest = len(data) - stream.tell()
    if rest:
        raise CBORError(f"{rest} bytes follow the item")
    return value
