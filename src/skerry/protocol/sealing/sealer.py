"""Encrypts what one sender sends, with the key of the group whose time has come.

The counter of a sealed datagram is wall time in nanoseconds, and always higher than the one before.
So it increases across restarts, and a receiver can reject datagrams that were recorded earlier.
"""

from __future__ import annotations

from skerry.protocol.sealing.group_keys import KeyRing
from skerry.protocol.sealing.sender_ciphers import SenderCipher, SenderCiphers


class Sealer:
    """Seals the datagrams of one sender."""

    def __init__(self, keys: KeyRing, ciphers: SenderCiphers) -> None:
        self.sealed_count = 0
        self._keys = keys
        self._ciphers = ciphers
        self._counter = 0
        self._key = keys.sending(0)[0]
        self._key_until_ns: int | None = 0
        self._identity = b""
        self._cipher: SenderCipher | None = None

    def rekey(self, keys: KeyRing) -> None:
        """Use another key ring from now on."""
        self._keys = keys
        self._key_until_ns = 0

    def key_id(self, wall_ns: int) -> int:
        """Return the id of the key that is used at this time."""
        return self._keys.sending(wall_ns)[0].key_id

    def seal(
        self, identity: bytes, nonce_head: bytes, head: bytes, content: bytes, wall_ns: int
    ) -> bytes:
        """Return `head`, the key id (1 byte), the counter (8), and the encrypted content with its
        tag, which authenticates all of it. `nonce_head` has 4 bytes."""
        if self._key_until_ns is not None and wall_ns >= self._key_until_ns:
            self._key, self._key_until_ns = self._keys.sending(wall_ns)
            self._cipher = None
        cipher = self._cipher
        if cipher is None or identity != self._identity:
            self._identity = identity
            cipher = self._cipher = self._ciphers.derive(self._key, identity)
        # A counter is not repeated even if the clock is set back.
        self._counter = counter = max(self._counter + 1, wall_ns)
        self.sealed_count += 1
        packed = counter.to_bytes(8, "big")
        clear = b"%b%c%b" % (head, self._key.key_id, packed)
        return clear + cipher.encrypt(nonce_head + packed, content, clear)
