"""How a client proves that it knows a secret without sending it."""

from __future__ import annotations

import hashlib
import hmac

__all__ = ["digest", "is_right_answer"]


def digest(*, name: str, secret: str, nonce: int, cnonce: str) -> str:
    """The answer to a challenge: 64 hexadecimal digits.

    The nonce is hashed as the eight bytes it has in the memory of the programs that began this,
    which is why the order of its bytes is that of their processors.
    """
    first = hashlib.sha256(_bytes(f"{name}::{secret}")).digest()
    second = first + b":" + nonce.to_bytes(8, "little") + b":" + _bytes(cnonce)
    return hashlib.sha256(second).hexdigest()


def is_right_answer(response: str, *, name: str, secret: str, nonce: int, cnonce: str) -> bool:
    """Whether a response is the one that who knows the secret gives; in any case of its letters."""
    wanted = digest(name=name, secret=secret, nonce=nonce, cnonce=cnonce)
    # In a time that tells nothing about how much of it was right.
    return hmac.compare_digest(wanted.encode(), _bytes(response.lower()))


def _bytes(text: str) -> bytes:
    # As it was on the wire, where text need not be UTF-8.
    return text.encode("utf-8", "surrogateescape")
