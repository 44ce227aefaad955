"""Datagrams that only members of a group can read or create.

A sealed datagram is the header with version 2 in clear, a byte for the key, a counter of 8 bytes,
and the encrypted rest, with a tag of 16 bytes that also authenticates the clear part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skerry.limits import DISTRIBUTOR_SENDER_COUNT_MAX
from skerry.protocol.distributor.messages import HEADER_BYTES
from skerry.protocol.sealing.group_keys import KeyRing
from skerry.protocol.sealing.opener import TAG_BYTES, Opener, SealRefusal, SealStatistics
from skerry.protocol.sealing.sealer import Sealer, SenderCiphers

SEALED_VERSION: Final = b"\x02\x00"
_UNSEALED_VERSION: Final = b"\x01\x00"
_CLEAR_BYTES: Final = HEADER_BYTES + 9
SEAL_OVERHEAD_BYTES: Final = _CLEAR_BYTES - HEADER_BYTES + TAG_BYTES
"""25, for every datagram and both ciphers."""
_LABEL: Final = b"skerry distributor sender key\x00"
_S: Final = 1_000_000_000


class GroupSeal:
    """The seal of one connection. `wall_ns` returns the time, which selects the key for sending.

    `freshness_s` is how far from now a counter may be; see `Opener`.
    """

    overhead_bytes = SEAL_OVERHEAD_BYTES

    def __init__(
        self, keys: KeyRing, *, wall_ns: Callable[[], int], freshness_s: float = 300.0
    ) -> None:
        """ConfigError if the encryption library is not installed."""
        ciphers = SenderCiphers(_LABEL)
        self._wall_ns = wall_ns
        self._sealer = Sealer(keys, ciphers)
        self._opener = Opener(
            keys,
            ciphers,
            freshness_ns=int(freshness_s * _S),
            sender_count_max=DISTRIBUTOR_SENDER_COUNT_MAX,
        )

    def rekey(self, keys: KeyRing) -> None:
        """Use another key ring from now on. The replay windows stay."""
        self._sealer.rekey(keys)
        self._opener.rekey(keys)

    def seal(self, datagram: bytes) -> bytes:
        """Return the sealed datagram, which is different for each call."""
        return self._sealer.seal(
            datagram[4:HEADER_BYTES],
            datagram[8:12],
            SEALED_VERSION + datagram[2:HEADER_BYTES],
            datagram[HEADER_BYTES:],
            self._wall_ns(),
        )

    def open(self, datagram: bytes) -> bytes | None:
        """Return the unsealed datagram; None if it is refused, which is counted."""
        refusal = _outer_fault(datagram)
        if refusal is not None:
            self._opener.refuse(refusal)
            return None
        content = self._opener.open(
            datagram[4:HEADER_BYTES], datagram[8:12], datagram, _CLEAR_BYTES, self._wall_ns()
        )
        if isinstance(content, SealRefusal):
            return None
        return _UNSEALED_VERSION + datagram[2:HEADER_BYTES] + content

    def statistics(self) -> SealStatistics:
        """Return the counters since the connection was created."""
        return SealStatistics(
            sealed_count=self._sealer.sealed_count,
            opened_count=self._opener.opened_count,
            refused={reason.value: count for reason, count in self._opener.refused.items()},
            key_id=self._sealer.key_id(self._wall_ns()),
            sender_count=self._opener.sender_count,
        )


def _outer_fault(datagram: bytes) -> SealRefusal | None:
    if datagram[:1] == _UNSEALED_VERSION[:1]:
        return SealRefusal.PLAIN
    if len(datagram) < _CLEAR_BYTES + TAG_BYTES:
        return SealRefusal.SHORT
    return None if datagram[:2] == SEALED_VERSION else SealRefusal.VERSION
