"""Encrypts what one sender sends, with the key of the group whose time has come.

Each sender has its own key, derived from the group key and the identity in its datagrams. So no two
senders, and no two runs of one, ever encrypt with the same key and counter.

The counter of a sealed datagram is wall time in nanoseconds, and always higher than the one before.
So it increases across restarts, and a receiver can reject datagrams that were recorded earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from skerry.errors import ConfigError
from skerry.protocol.sealing.group_keys import KEY_BYTES, Cipher, GroupKey, KeyRing


class SenderCipher(Protocol):
    """The cipher of one sender. A nonce has 12 bytes. `clear` is authenticated as well."""

    def encrypt(self, nonce: bytes, content: bytes, clear: bytes, /) -> bytes: ...

    def decrypt(self, nonce: bytes, content: bytes, clear: bytes, /) -> bytes: ...


class SenderCiphers:
    """Derives the ciphers of senders with the encryption library."""

    def __init__(self, label: bytes) -> None:
        """`label` distinguishes uses of one group key, which must not share ciphers.

        Raises ConfigError if the library is not installed.
        """
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives import hashes
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        except ImportError as error:
            raise ConfigError(
                key="key_file",
                origin="given",
                detail=f"sealed datagrams need the library cryptography ({error})",
                hint="pip install 'skerry[security]'",
            ) from None
        self.forgery = InvalidTag
        """The exception of a cipher for bytes that were made or changed without the key."""
        self._label = label
        self._hash = hashes.SHA256
        self._hkdf = HKDF
        self._classes: dict[Cipher, Callable[[bytes], SenderCipher]] = {
            Cipher.AES: AESGCM,
            Cipher.CHACHA: ChaCha20Poly1305,
        }

    def derive(self, key: GroupKey, identity: bytes) -> SenderCipher:
        """Return the cipher of the sender with this identity."""
        # The cipher is included, so no key is used for two ciphers.
        info = self._label + key.cipher.value.encode() + b"\x00" + identity
        derived = self._hkdf(algorithm=self._hash(), length=KEY_BYTES, salt=None, info=info)
        return self._classes[key.cipher](derived.derive(key.secret))


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
