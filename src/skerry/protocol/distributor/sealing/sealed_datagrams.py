"""Datagrams that only members of a group can read or make.

A sealed datagram is the header with version 2 in clear, a byte for the key, a counter of 8 bytes,
and the rest encrypted, with a tag of 16 bytes that also covers what is in clear. Each sender has
a key of its own, derived from the group's key and the identity in its header, so no two senders,
and no two lives of one, ever encrypt under the same key and counter.

The counter is wall time in nanoseconds, and always higher than the one before. So it goes on rising
through restarts, and a receiver can tell what was recorded earlier from what is said now.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from skerry.errors import ConfigError
from skerry.limits import DISTRIBUTOR_SENDER_COUNT_MAX
from skerry.protocol.distributor.messages import HEADER_BYTES
from skerry.protocol.distributor.sealing.group_keys import KEY_BYTES, Cipher, GroupKey, KeyRing
from skerry.protocol.machine import Statistics

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

    _Aead: TypeAlias = AESGCM | ChaCha20Poly1305

__all__ = [
    "DISTRIBUTOR_REPLAY_COUNT_MAX",
    "SEALED_VERSION",
    "SEAL_OVERHEAD_BYTES",
    "GroupSeal",
    "SealRefusal",
    "SealStatistics",
]

DISTRIBUTOR_REPLAY_COUNT_MAX: Final = 1024
"""Counters of sealed datagrams that are remembered of each sender, once or twice: those of
datagrams that could have been overtaken. A network that reorders more than that also loses more."""

SEALED_VERSION: Final = b"\x02\x00"
_PLAIN_VERSION: Final = b"\x01\x00"
_COUNTER_AT: Final = HEADER_BYTES + 1
_CLEAR_BYTES: Final = _COUNTER_AT + 8
_TAG_BYTES: Final = 16
SEAL_OVERHEAD_BYTES: Final = _CLEAR_BYTES - HEADER_BYTES + _TAG_BYTES
"""25, for every datagram and both ciphers."""
_LABEL: Final = b"skerry distributor sender key\x00"
_S: Final = 1_000_000_000


class SealRefusal(enum.Enum):
    """Why a datagram is not from a member of the group, or not from now; each is counted."""

    PLAIN = "plain"
    """It is not sealed."""
    SHORT = "short"
    """It ends before its tag."""
    VERSION = "version"
    """Nobody knows its version."""
    KEY = "key"
    """The ring has no key of its id."""
    FORGED = "forged"
    """It was made or changed by somebody who does not have the key."""
    STALE = "stale"
    """It was sealed longer ago, or later, than may be: recorded earlier, or clocks are apart."""
    REPLAYED = "replayed"
    """It was here before, or is older than what is remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealStatistics(Statistics):
    """What became of datagrams at the border."""

    sealed_count: int
    opened_count: int
    refused: Mapping[str, int]
    """By reason."""
    key_id: int
    """The key that is sent with now."""
    sender_count: int
    """Senders whose counters are remembered."""


class GroupSeal:
    """The seal of one connection. `wall_ns` gives the time; it decides which key is sent with.

    `freshness_s` is how far from now a counter may be; 0 takes any, for computers without a clock
    that can be relied on. Then a recording of a sender that is gone can be played to the group.
    """

    overhead_bytes = SEAL_OVERHEAD_BYTES

    def __init__(
        self, keys: KeyRing, *, wall_ns: Callable[[], int], freshness_s: float = 300.0
    ) -> None:
        """ConfigError if the library that encrypts is not installed."""
        self._new_aead = _library()
        self._keys = keys
        self._wall_ns = wall_ns
        self._freshness_ns = int(freshness_s * _S)
        self._counter = 0
        self._key, self._key_until_ns = keys.sending(wall_ns())
        self._own_identity = b""
        self._own: _Aead | None = None
        self._windows: dict[bytes, _Window] = {}
        self._sealed_count = 0
        self._opened_count = 0
        self._refused = dict.fromkeys(SealRefusal, 0)

    def rekey(self, keys: KeyRing) -> None:
        """Use another ring from now on. What was received stays remembered."""
        self._keys = keys
        self._key_until_ns = 0
        for window in self._windows.values():
            window.aeads.clear()

    def seal(self, datagram: bytes) -> bytes:
        """The datagram as it is sent; each time it is another one."""
        now_ns = self._wall_ns()
        if self._key_until_ns is not None and now_ns >= self._key_until_ns:
            self._key, self._key_until_ns = self._keys.sending(now_ns)
            self._own = None
        identity = datagram[4:HEADER_BYTES]
        aead = self._own
        if aead is None or identity != self._own_identity:
            self._own_identity = identity
            aead = self._own = self._new_aead(self._key, identity)
        # Not even a clock that was set back makes a counter come again.
        self._counter = counter = max(self._counter + 1, now_ns)
        self._sealed_count += 1
        packed = counter.to_bytes(8, "big")
        clear = b"%b%b%c%b" % (SEALED_VERSION, datagram[2:HEADER_BYTES], self._key.key_id, packed)
        return clear + aead.encrypt(datagram[8:12] + packed, datagram[HEADER_BYTES:], clear)

    def open(self, datagram: bytes) -> bytes | None:
        """The plain datagram; None for what is refused, which is counted."""
        refusal = _outer_fault(datagram)
        if refusal is None:
            opened = self._open(datagram)
            if isinstance(opened, bytes):
                self._opened_count += 1
                return opened
            refusal = opened
        self._refused[refusal] += 1
        return None

    def statistics(self) -> SealStatistics:
        """Counters since the connection was made."""
        return SealStatistics(
            sealed_count=self._sealed_count,
            opened_count=self._opened_count,
            refused={refusal.value: count for refusal, count in self._refused.items()},
            key_id=self._keys.sending(self._wall_ns())[0].key_id,
            sender_count=len(self._windows),
        )

    # -- inside

    def _open(self, datagram: bytes) -> bytes | SealRefusal:
        key_id = datagram[HEADER_BYTES]
        identity = datagram[4:HEADER_BYTES]
        window = self._windows.get(identity)
        aead = None if window is None else window.aeads.get(key_id)
        is_known = aead is not None
        if aead is None:
            key = self._keys.get(key_id)
            if key is None:
                return SealRefusal.KEY
            aead = self._new_aead(key, identity)
        packed = datagram[_COUNTER_AT:_CLEAR_BYTES]
        clear = datagram[:_CLEAR_BYTES]
        try:
            content = aead.decrypt(datagram[8:12] + packed, datagram[_CLEAR_BYTES:], clear)
        except self._new_aead.forgery:
            return SealRefusal.FORGED
        counter = int.from_bytes(packed, "big")
        if self._freshness_ns and abs(counter - self._wall_ns()) > self._freshness_ns:
            return SealRefusal.STALE
        if window is None:
            window = self._remember(identity)
        if not is_known:
            # Only now: strangers must not fill the memory.
            window.aeads[key_id] = aead
        if not window.accept(counter):
            return SealRefusal.REPLAYED
        return _PLAIN_VERSION + datagram[2:HEADER_BYTES] + content

    def _remember(self, identity: bytes) -> _Window:
        if len(self._windows) >= DISTRIBUTOR_SENDER_COUNT_MAX:
            quietest = min(self._windows, key=lambda other: self._windows[other].highest)
            del self._windows[quietest]
        window = self._windows[identity] = _Window()
        return window


class _Window:
    """The counters of one sender that came lately.

    Two sets take turns. All that is not above the highest of the set that was dropped last is
    refused, so a datagram that so many others overtook is lost, and asked for.
    """

    def __init__(self) -> None:
        self.aeads: dict[int, _Aead] = {}
        self.highest = 0
        self._floor = -1
        self._recent: set[int] = set()
        self._older: set[int] = set()

    def accept(self, counter: int) -> bool:
        """Whether it is new; it is remembered then."""
        if counter <= self._floor or counter in self._recent or counter in self._older:
            return False
        if len(self._recent) >= DISTRIBUTOR_REPLAY_COUNT_MAX:
            self._floor = max(self._older, default=self._floor)
            self._older = self._recent
            self._recent = set()
        self._recent.add(counter)
        self.highest = max(self.highest, counter)
        return True


class _NewAead:
    """Makes what encrypts for one sender, with the library that does it."""

    def __init__(self) -> None:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        self.forgery = InvalidTag
        self._hash = hashes.SHA256
        self._hkdf = HKDF
        self._classes: dict[Cipher, type[_Aead]] = {
            Cipher.AES: AESGCM,
            Cipher.CHACHA: ChaCha20Poly1305,
        }

    def __call__(self, key: GroupKey, identity: bytes) -> _Aead:
        # The cipher is part of it: no key serves two of them.
        info = _LABEL + key.cipher.value.encode() + b"\x00" + identity
        derive = self._hkdf(algorithm=self._hash(), length=KEY_BYTES, salt=None, info=info)
        return self._classes[key.cipher](derive.derive(key.secret))


def _library() -> _NewAead:
    try:
        return _NewAead()
    except ImportError as error:
        raise ConfigError(
            key="distributor.key_file",
            origin="given",
            detail=f"sealed datagrams need the library cryptography ({error})",
            hint="pip install 'skerry[security]'",
        ) from None


def _outer_fault(datagram: bytes) -> SealRefusal | None:
    if datagram[:1] == _PLAIN_VERSION[:1]:
        return SealRefusal.PLAIN
    if len(datagram) < _CLEAR_BYTES + _TAG_BYTES:
        return SealRefusal.SHORT
    return None if datagram[:2] == SEALED_VERSION else SealRefusal.VERSION
