"""Parameter lists, in which nodes describe themselves and others to discovery.

A list is a sequence of numbered values in little-endian form. Unknown numbers are skipped, so that
later versions may add some.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.machine import Address

__all__ = [
    "is_locatable",
    "locator",
    "locator_address",
    "parameter_list",
    "read_parameters",
    "read_text",
    "text",
]

_PL_CDR_LITTLE: Final = b"\x00\x03\x00\x00"
_SENTINEL: Final = 0x0001
_HEAD: Final = struct.Struct("<HH")
_LOCATOR: Final = struct.Struct("<iI16s")
_V4, _V6 = 1, 2
_V4_PAD: Final = bytes(12)


def parameter_list(parameters: Iterable[tuple[int, bytes]]) -> bytes:
    """Return the payload with these parameters, in order."""
    parts = [_PL_CDR_LITTLE]
    for number, value in parameters:
        pad = bytes(-len(value) % 4)
        parts += [_HEAD.pack(number, len(value) + len(pad)), value, pad]
    parts.append(_HEAD.pack(_SENTINEL, 0))
    return b"".join(parts)


def read_parameters(payload: bytes) -> dict[int, bytes]:
    """Return the parameters of a payload, padded. Raises DecodeError if it is malformed."""
    if payload[:4] != _PL_CDR_LITTLE:
        raise _fault("no encapsulation of a little-endian parameter list")
    found: dict[int, bytes] = {}
    offset = 4
    while offset + 4 <= len(payload):
        number, size = _HEAD.unpack_from(payload, offset)
        if number == _SENTINEL:
            return found
        offset += 4 + size
        if offset > len(payload):
            break
        found[number] = payload[offset - size : offset]
    raise _fault("the list does not end")


def text(value: str) -> bytes:
    """Return a text as a CDR string."""
    data = value.encode() + b"\0"
    return len(data).to_bytes(4, "little") + data


def read_text(value: bytes) -> str:
    """Return the text of a CDR string. Raises DecodeError if it is not one."""
    size = int.from_bytes(value[:4], "little")
    data = value[4 : 4 + size]
    if size < 1 or len(data) != size or data[-1]:
        raise _fault("a text does not match its length")
    try:
        return data[:-1].decode()
    except UnicodeDecodeError as error:
        raise _fault("a text is not UTF-8") from error


def is_locatable(address: Address) -> bool:
    """Return whether `locator` accepts an address."""
    try:
        ipaddress.ip_address(address.host)
    except ValueError:
        return False
    return 0 < address.port < 1 << 16


def locator(address: Address) -> bytes:
    """Return an IP address and port as a locator."""
    host = ipaddress.ip_address(address.host)
    if host.version == 4:
        return _LOCATOR.pack(_V4, address.port, _V4_PAD + host.packed)
    return _LOCATOR.pack(_V6, address.port, host.packed)


def locator_address(value: bytes) -> Address:
    """Return the address in a locator. Raises DecodeError if there is none."""
    if len(value) != _LOCATOR.size:
        raise _fault(f"a locator of {len(value)} bytes")
    kind, port, packed = _LOCATOR.unpack(value)
    if kind not in (_V4, _V6) or not 0 < port < 1 << 16:
        raise _fault(f"a locator of kind {kind} with port {port}")
    host = ipaddress.ip_address(packed[12:] if kind == _V4 else packed)
    return Address(str(host), port)


def _fault(detail: str) -> DecodeError:
    return DecodeError(type_name="Parameters", detail=detail)
