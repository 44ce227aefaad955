"""Authentication of a client by a challenge, without sending the secret."""

from __future__ import annotations

import hashlib
import hmac


def digest(*, name: str, secret: str, nonce: int, cnonce: str) -> str:
    """Return the response to a challenge: 64 hexadecimal digits.

    The nonce is hashed in little-endian order, as in the memory of the first DOTS programs.
    """
    first = hashlib.sha256(_bytes(f"{name}::{secret}")).digest()
    second = first + b":" + nonce.to_bytes(8, "little") + b":" + _bytes(cnonce)
    return hashlib.sha256(second).hexdigest()


def is_right_answer(response: str, *, name: str, secret: str, nonce: int, cnonce: str) -> bool:
    """Return whether a response is correct. The case of its digits is ignored."""
    wanted = digest(name=name, secret=secret, nonce=nonce, cnonce=cnonce)
    # In constant time, so that timing does not reveal how much of the response was correct.
    return hmac.compare_digest(wanted.encode(), _bytes(response.lower()))


def _bytes(text: str) -> bytes:
    # The bytes of the wire, where text need not be UTF-8.
    return text.encode("utf-8", "surrogateescape")
