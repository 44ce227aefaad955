"""Payloads of publications as bytes of a space, and back."""

from __future__ import annotations

import json
import math
from typing import Any, Final, NoReturn

from skerry.codec.bson import decode_bson, encode_bson
from skerry.errors import EncodeError
from skerry.limits import JSON_DEPTH_MAX
from skerry.protocol.portal.identifiers import Scheme

_NUL: Final = b"\0"


def bytes_of_payload(scheme: int, payload: bytes, *, is_opaque: bool) -> bytes:
    """The bytes in the space for a payload: the text of CSTR without its NUL, JSON as text, any
    other payload unchanged. Raises DecodeError."""
    if is_opaque or scheme not in (Scheme.CSTR, Scheme.JSON):
        return payload
    if scheme == Scheme.CSTR:
        return payload[:-1]
    return json_text(decode_bson(payload)).encode()


def payload_of_bytes(scheme: int, data: bytes, *, is_opaque: bool) -> bytes:
    """The payload for bytes in the space. Raises EncodeError."""
    if is_opaque or scheme not in (Scheme.CSTR, Scheme.JSON):
        return data
    if scheme == Scheme.CSTR:
        return data + _NUL
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:
        _refuse(f"not JSON: {error}")
    if not isinstance(values, dict):
        _refuse("a publication of JSON is an object with names, not another value")
    return encode_bson(values)


def json_text(values: Any) -> str:
    """JSON values as text: binary data in hexadecimal, and `nan`, `inf` and `-inf` as texts."""
    return json.dumps(plain_values(values), ensure_ascii=False, allow_nan=False)


def plain_values(values: Any) -> Any:
    """JSON values without those that JSON text does not have, as in `json_text`."""
    return _plain(values, 1)


def _plain(value: Any, depth: int) -> Any:
    if depth > JSON_DEPTH_MAX:
        _refuse(f"values are nested more than {JSON_DEPTH_MAX} deep")
    if isinstance(value, dict):
        return {name: _plain(item, depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _refuse(detail: str) -> NoReturn:
    raise EncodeError(type_name="JSON", field="", detail=detail)
