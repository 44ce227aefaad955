"""Datagrams that only members of a group can read or create.

A sealed datagram is the header with version 2 in clear, a byte for the key, a counter of 8 bytes,
and the encrypted rest, with a tag of 16 bytes that also authenticates the clear part. Each sender
has its own key, derived from the group key and the identity in its header, so no two senders, and
no two runs of one, ever encrypt with the same key and counter.

The counter is wall time in nanoseconds, and always higher than the one before. So it increases
across restarts, and a receiver can reject datagrams that were recorded earlier.
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
_UNSEALED_VERSION: Final = b"\x01\x00"
_COUNTER_AT: Final = HEADER_BYTES + 1
_CLEAR_BYTES: Final = _COUNTER_AT + 8
_TAG_BYTES: Final = 16
SEAL_OVERHEAD_BYTES: Final = _CLEAR_BYTES - HEADER_BYTES + _TAG_BYTES
"""25, for every datagram and both ciphers."""
_LABEL: Final = b"skerry distributor sender key\x00"
_S: Final = 1_000_000_000


class SealRefusal(enum.Enum):
    """Why a datagram is not from a member of the group, or not recent; each is counted."""

    PLAIN = "plain"
    """The datagram is not sealed."""
    SHORT = "short"
    """The datagram ends before its tag."""
    VERSION = "version"
    """The version is unknown."""
    KEY = "key"
    """The key ring has no key with this id."""
    FORGED = "forged"
    """The datagram was created or changed without the key."""
    STALE = "stale"
    """The counter is too far from now: the datagram was recorded, or the clocks differ."""
    REPLAYED = "replayed"
    """The datagram was received before, or is older than the replay window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealStatistics(Statistics):
    """The counters of a seal."""

    sealed_count: int
    opened_count: int
    refused: Mapping[str, int]
    """Refused datagrams by reason."""
    key_id: int
    """The key that is used for sending now."""
    sender_count: int
    """Senders with a replay window."""


class GroupSeal:
    """The seal of one connection. `wall_ns` returns the time, which selects the key for sending.

    `freshness_s` is how far from now a counter may be. 0 accepts any, for computers without a
    reliable clock; then recorded datagrams of an absent sender can be replayed to the group.
    """

    overhead_bytes = SEAL_OVERHEAD_BYTES

    def __init__(
        self, keys: KeyRing, *, wall_ns: Callable[[], int], freshness_s: float = 300.0
    ) -> None:
        """ConfigError if the encryption library is not installed."""
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
        """Use another key ring from now on. The replay windows stay."""
        self._keys = keys
        self._key_until_ns = 0
        for window in self._windows.values():
            window.aeads.clear()

    def seal(self, datagram: bytes) -> bytes:
        """Return the sealed datagram, which is different for each call."""
        now_ns = self._wall_ns()
        if self._key_until_ns is not None and now_ns >= self._key_until_ns:
            self._key, self._key_until_ns = self._keys.sending(now_ns)
            self._own = None
        identity = datagram[4:HEADER_BYTES]
        aead = self._own
        if aead is None or identity != self._own_identity:
            self._own_identity = identity
            aead = self._own = self._new_aead(self._key, identity)
        # A counter is not repeated even if the clock is set back.
        self._counter = counter = max(self._counter + 1, now_ns)
        self._sealed_count += 1
        packed = counter.to_bytes(8, "big")
        clear = b"%b%b%c%b" % (SEALED_VERSION, datagram[2:HEADER_BYTES], self._key.key_id, packed)
        return clear + aead.encrypt(datagram[8:12] + packed, datagram[HEADER_BYTES:], clear)

    def open(self, datagram: bytes) -> bytes | None:
        """Return the unsealed datagram; None if it is refused, which is counted."""
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
        """Return the counters since the connection was created."""
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
            # Only now, because forged datagrams must not fill the memory.
            window.aeads[key_id] = aead
        if not window.accept(counter):
            return SealRefusal.REPLAYED
        return _UNSEALED_VERSION + datagram[2:HEADER_BYTES] + content

    def _remember(self, identity: bytes) -> _Window:
        if len(self._windows) >= DISTRIBUTOR_SENDER_COUNT_MAX:
            quietest = min(self._windows, key=lambda other: self._windows[other].highest)
            del self._windows[quietest]
        window = self._windows[identity] = _Window()
        return window


class _Window:
    """The replay window: the recent counters of one sender.

    Two sets are used in turn. Counters up to the highest of the set that was discarded last are
    refused, so a datagram that is very late is treated as lost, and requested again.
    """

    def __init__(self) -> None:
        self.aeads: dict[int, _Aead] = {}
        self.highest = 0
        self._floor = -1
        self._recent: set[int] = set()
        self._older: set[int] = set()

    def accept(self, counter: int) -> bool:
        """Return whether a counter is new, and record it."""
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
    """Creates the cipher object of one sender with the encryption library."""

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
        # The cipher is included, so no key is used for two ciphers.
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
    if datagram[:1] == _UNSEALED_VERSION[:1]:
        return SealRefusal.PLAIN
    if len(datagram) < _CLEAR_BYTES + _TAG_BYTES:
        return SealRefusal.SHORT
    return None if datagram[:2] == SEALED_VERSION else SealRefusal.VERSION
