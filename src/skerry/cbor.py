"""The one module that knows the CBOR library.

Objects are encoded and decoded by `skerry.codec`, which knows their types. This is for the few
places where a value has no type: fingerprints, and looking into payloads nobody described.
"""

from __future__ import annotations

import io
from typing import Any

import cbor2

__all__ = ["CBORError", "dumps", "loads"]

CBORError = cbor2.CBORDecodeError
"""What `loads` raises on bytes that are not one CBOR item."""


def dumps(value: object) -> bytes:
    """The value in its shortest form, map entries in the order given."""
    return cbor2.dumps(value)


def loads(data: bytes) -> Any:
    """The one item that `data` is, as plain Python values."""
    stream = io.BytesIO(data)
    value = cbor2.load(stream)
    rest = len(data) - stream.tell()
    if rest:
        raise CBORError(f"{rest} bytes follow the item")
    return value
