"""The cost of sealing and opening a datagram, beside the bare library call that encrypts."""

from __future__ import annotations

import time
from collections.abc import Callable

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

from benchmarks.rows import Row, best_of
from skerry.protocol.distributor.sealed_datagrams import SEAL_OVERHEAD_BYTES, GroupSeal
from skerry.protocol.sealing.group_keys import Cipher, GroupKey, KeyRing

HEADER = bytes.fromhex("010001050a0000010000ef33de07d77a000103ae")
SIZES = (128, 1472, 7800)
"""Bytes of a sealed datagram: a single small update, a frame of Ethernet, our largest."""


def run() -> list[Row]:
    """Rows for each cipher and size."""
    return [row for cipher in Cipher for size in SIZES for row in _rows(cipher, size)]


def _rows(cipher: Cipher, size: int) -> list[Row]:
    ring = KeyRing([GroupKey(key_id=1, secret=bytes(32), cipher=cipher)])
    sender = GroupSeal(ring, wall_ns=time.time_ns)
    receiver = GroupSeal(ring, wall_ns=time.time_ns)
    plain = HEADER + bytes(size - SEAL_OVERHEAD_BYTES - len(HEADER))
    encrypt, decrypt = _bare(cipher, plain[20:])
    sealed = receiver.open(sender.seal(plain))
    if sealed != plain:
        raise AssertionError("what was sealed did not come back")

    times = best_of(
        lambda: sender.seal(plain),
        encrypt,
        lambda: receiver.open(sender.seal(plain)),
        lambda: (encrypt(), decrypt()),
        seconds=1.0,
    )
    return [
        Row(
            name=f"{what}, {cipher.value}, {size} bytes",
            ours=ours,
            theirs=theirs,
            peer="the library alone",
            unit="ns CPU",
        )
        for what, ours, theirs in (
            ("seal a datagram", times[0], times[1]),
            ("seal and open a datagram", times[2], times[3]),
        )
    ]


def _bare(cipher: Cipher, content: bytes) -> tuple[Callable[[], bytes], Callable[[], bytes]]:
    made = AESGCM(bytes(32)) if cipher is Cipher.AES else ChaCha20Poly1305(bytes(32))
    nonce, clear = bytes(12), bytes(29)
    sealed = made.encrypt(nonce, content, clear)
    return (
        lambda: made.encrypt(nonce, content, clear),
        lambda: made.decrypt(nonce, sealed, clear),
    )
