"""Decrypts what is received, and refuses what is forged, old or repeated."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from skerry.protocol.machine import Statistics
from skerry.protocol.sealing.group_keys import KeyRing
from skerry.protocol.sealing.sealer import SenderCipher, SenderCiphers

REPLAY_COUNT_MAX: Final = 1024
"""Counters of sealed datagrams that are remembered of each sender, once or twice: those of
datagrams that could have been overtaken. A network that reorders more than that also loses more."""


class ReplayWindow:
    """The recent counters of one sender, by which repeated datagrams are recognized.

    Two sets are used in turn. Counters up to the highest of the set that was discarded last are
    refused, so a datagram that is very late is treated as lost, and requested again.
    """

    def __init__(self) -> None:
        self.highest = 0
        self._floor = -1
        self._recent: set[int] = set()
        self._older: set[int] = set()

    def accept(self, counter: int) -> bool:
        """Return whether a counter is new, and record it."""
        if counter <= self._floor or counter in self._recent or counter in self._older:
            return False
        if len(self._recent) >= REPLAY_COUNT_MAX:
            self._floor = max(self._older, default=self._floor)
            self._older = self._recent
            self._recent = set()
        self._recent.add(counter)
        self.highest = max(self.highest, counter)
        return True


TAG_BYTES: Final = 16
_COUNTER_BYTES: Final = 8


class SealRefusal(enum.Enum):
    """Why a datagram is not from a member of the group, or not recent; each is counted."""

    PLAIN = "plain"
    """The datagram is not sealed."""
    SHORT = "short"
    """The datagram ends before its tag."""
    VERSION = "version"
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
    sealed_count: int
    opened_count: int
    refused: Mapping[str, int]
    key_id: int
    """The key that is used for sending now."""
    sender_count: int
    """Senders with a replay window."""


class Opener:
    """Opens the datagrams of all senders.

    `freshness_ns` is how far from now a counter may be. 0 accepts any, for computers without a
    reliable clock; then recorded datagrams of an absent sender can be replayed to the group.
    """

    def __init__(
        self, keys: KeyRing, ciphers: SenderCiphers, *, freshness_ns: int, sender_count_max: int
    ) -> None:
        self.opened_count = 0
        self.refused = dict.fromkeys(SealRefusal, 0)
        self._keys = keys
        self._ciphers = ciphers
        self._freshness_ns = freshness_ns
        self._sender_count_max = sender_count_max
        self._windows: dict[bytes, ReplayWindow] = {}
        self._known: dict[tuple[bytes, int], SenderCipher] = {}
        """The ciphers of senders with a window, by identity and key id."""
        self._purge_ns = 0

    @property
    def sender_count(self) -> int:
        """How many senders have a replay window."""
        return len(self._windows)

    def rekey(self, keys: KeyRing) -> None:
        """Use another key ring from now on. The replay windows stay."""
        self._keys = keys
        self._known.clear()

    def refuse(self, refusal: SealRefusal) -> SealRefusal:
        """Count a datagram that is not opened."""
        self.refused[refusal] += 1
        return refusal

    def open(
        self, identity: bytes, nonce_head: bytes, datagram: bytes, clear_bytes: int, wall_ns: int
    ) -> bytes | SealRefusal:
        """Return the content of a datagram that `Sealer.seal` made, or why it is refused.

        The first `clear_bytes` of the datagram are not encrypted. They end with the key id and the
        counter.
        """
        counter_at = clear_bytes - _COUNTER_BYTES
        key_id = datagram[counter_at - 1]
        cipher = known = self._known.get((identity, key_id))
        if cipher is None:
            key = self._keys.get(key_id)
            if key is None:
                return self.refuse(SealRefusal.KEY)
            cipher = self._ciphers.derive(key, identity)
        clear = datagram[:clear_bytes]
        packed = clear[counter_at:]
        try:
            content = cipher.decrypt(nonce_head + packed, datagram[clear_bytes:], clear)
        except self._ciphers.forgery:
            return self.refuse(SealRefusal.FORGED)
        counter = int.from_bytes(packed, "big")
        if self._freshness_ns and abs(counter - wall_ns) > self._freshness_ns:
            return self.refuse(SealRefusal.STALE)
        window = self._windows.get(identity)
        if window is None:
            window = self._remember(identity, wall_ns)
        if known is None:
            # Only now, because forged datagrams must not fill the memory.
            self._known[identity, key_id] = cipher
        if not window.accept(counter):
            return self.refuse(SealRefusal.REPLAYED)
        self.opened_count += 1
        return content

    def _remember(self, identity: bytes, wall_ns: int) -> ReplayWindow:
        if self._freshness_ns and wall_ns >= self._purge_ns:
            # What a sender sent before that is stale without a window as well.
            self._purge_ns = wall_ns + self._freshness_ns
            oldest_ns = wall_ns - self._freshness_ns
            self._forget({one for one, seen in self._windows.items() if seen.highest < oldest_ns})
        if len(self._windows) >= self._sender_count_max:
            self._forget({min(self._windows, key=lambda other: self._windows[other].highest)})
        window = self._windows[identity] = ReplayWindow()
        return window

    def _forget(self, senders: set[bytes]) -> None:
        for sender in senders:
            del self._windows[sender]
        for known in [known for known in self._known if known[0] in senders]:
            del self._known[known]
