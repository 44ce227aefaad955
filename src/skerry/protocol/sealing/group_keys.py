"""The keys of a group: from when on each is used, and the format of the key file.

A key ring is read from TOML, one table for each key. All members of a group have the same file. A
new key is added to all files before the time from which on it is used, and the old one is removed
after that. No datagram is lost meanwhile, because members accept every key of the ring.
"""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from skerry.errors import ConfigError
from skerry.suggestions import nearest

GROUP_KEY_COUNT_MAX: Final = 16
"""Keys of one group. Two are in use while one replaces the other."""

KEY_BYTES: Final = 32
_PASSPHRASE_CHAR_COUNT_MIN: Final = 12
"""With fewer, guessing a passphrase takes less than a day, whatever the derivation costs."""
_SCRYPT_COST: Final = 1 << 15
_SCRYPT_BLOCK: Final = 8
_SCRYPT_BYTES_MAX: Final = 1 << 26
_SALT: Final = b"skerry distributor group key"
"""The same for all groups: members share only the passphrase."""
_FIELDS: Final = ("id", "secret", "passphrase", "cipher", "from")


class Cipher(enum.Enum):
    """How datagrams are encrypted. The overhead of both is the same."""

    AES = "aes-256-gcm"
    """Faster on processors with instructions for it, which most have."""
    CHACHA = "chacha20-poly1305"
    """Faster on processors without these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    key_id: int
    """The number of the key in datagrams: 0 to 255."""
    secret: bytes = field(repr=False)
    cipher: Cipher = Cipher.AES
    from_ns: int = 0
    """Wall time from which on datagrams are sealed with it. It is accepted at any time."""

    def __post_init__(self) -> None:
        if not 0 <= self.key_id <= 255:
            raise ValueError(f"the id of a key is 0 to 255, not {self.key_id}")
        if len(self.secret) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(self.secret)}")


class KeyRing:
    """The keys of a group, at least one."""

    def __init__(self, keys: Iterable[GroupKey]) -> None:
        """ValueError for keys that cannot be in one ring."""
        self._keys: dict[int, GroupKey] = {}
        for key in keys:
            if key.key_id in self._keys:
                raise ValueError(f"two keys have the id {key.key_id}")
            self._keys[key.key_id] = key
        if not self._keys:
            raise ValueError("there is no key")
        if len(self._keys) > GROUP_KEY_COUNT_MAX:
            raise ValueError(f"{len(self._keys)} keys, the limit is {GROUP_KEY_COUNT_MAX}")
        # Of two with the same time the one with the higher id counts as newer.
        self._by_time = sorted(self._keys.values(), key=lambda key: (key.from_ns, key.key_id))

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key_id: int) -> GroupKey | None:
        """Return the key with this id; None if there is none."""
        return self._keys.get(key_id)

    def sending(self, wall_ns: int) -> tuple[GroupKey, int | None]:
        """Return the key to seal with, and until when: the newest whose time has come, or the
        first if none has."""
        current = self._by_time[0]
        for key in self._by_time[1:]:
            if key.from_ns > wall_ns:
                return current, key.from_ns
            current = key
        return current, None


def key_of_passphrase(passphrase: str) -> bytes:
    """Derive a key from a passphrase. It takes a fifth of a second, for attackers too."""
    return hashlib.scrypt(
        passphrase.encode(),
        salt=_SALT,
        n=_SCRYPT_COST,
        r=_SCRYPT_BLOCK,
        p=1,
        maxmem=_SCRYPT_BYTES_MAX,
        dklen=KEY_BYTES,
    )


def parse_keys(text: str, *, origin: str) -> KeyRing:
    """Return the key ring of a key file; ConfigError if it cannot be used."""
    try:
        tables = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        # Without its cause, which contains the text and so the secrets.
        raise _refusal(origin, f"not TOML: {error}") from None
    for name in tables:
        if name != "key":
            raise _refusal(origin, f"a key file has no {name!r}")
    rows = tables.get("key", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _refusal(origin, "`key` is not a list of tables")
    if len(rows) > GROUP_KEY_COUNT_MAX:
        raise _refusal(origin, f"{len(rows)} keys, the limit is {GROUP_KEY_COUNT_MAX}")
    try:
        return KeyRing(_key(row) for row in rows)
    except ValueError as error:
        raise _refusal(origin, str(error)) from None


def _key(row: dict[str, Any]) -> GroupKey:
    for name in row:
        if name not in _FIELDS:
            guess = nearest(name, _FIELDS)
            raise ValueError(
                f"a key has no {name!r}" + (f"; did you mean {guess}?" if guess else "")
            )
    key_id = row.get("id")
    if type(key_id) is not int:
        raise ValueError("a key without an id, which is a number from 0 to 255")
    try:
        return GroupKey(
            key_id=key_id,
            secret=_secret(row),
            cipher=_cipher(row.get("cipher", Cipher.AES.value)),
            from_ns=_wall_ns(row.get("from")),
        )
    except ValueError as error:
        raise ValueError(f"key {key_id}: {error}") from None


def _secret(row: dict[str, Any]) -> bytes:
    given = [name for name in ("secret", "passphrase") if name in row]
    if len(given) != 1:
        raise ValueError("set either a secret or a passphrase")
    text = row[given[0]]
    if type(text) is not str:
        raise ValueError(f"the {given[0]} is not a text")
    if given[0] == "passphrase":
        if len(text) < _PASSPHRASE_CHAR_COUNT_MIN:
            raise ValueError(f"a passphrase needs at least {_PASSPHRASE_CHAR_COUNT_MIN} characters")
        return key_of_passphrase(text)
    for read in (bytes.fromhex, _of_base64):
        try:
            secret = read(text)
        except ValueError:
            continue
        if len(secret) == KEY_BYTES:
            return secret
    raise ValueError(f"the secret is not {KEY_BYTES} bytes in hex or base64")


def _of_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _cipher(text: object) -> Cipher:
    for cipher in Cipher:
        if cipher.value == text:
            return cipher
    raise ValueError(f"{text!r} is not one of {', '.join(cipher.value for cipher in Cipher)}")


def _wall_ns(given: object) -> int:
    if given is None:
        return 0
    if not isinstance(given, datetime) or given.tzinfo is None:
        raise ValueError("`from` has to be a time with a zone, such as 2026-12-01T00:00:00Z")
    elapsed = given.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000_000 + elapsed.microseconds * 1000


def _refusal(origin: str, detail: str) -> ConfigError:
    return ConfigError(
        key="key_file",
        origin=origin,
        detail=detail,
        hint="a key is [[key]] with id = 1 and secret = 64 hex digits (`openssl rand -hex 32`)",
    )
