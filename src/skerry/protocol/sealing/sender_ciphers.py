"""The cipher of one sender, derived from a key of the group.

Each sender has its own key, derived from the group key and the identity in its datagrams. So no two
senders, and no two runs of one, ever encrypt with the same key and counter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from skerry.errors import ConfigError
from skerry.protocol.sealing.group_keys import KEY_BYTES, Cipher, GroupKey


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
