"""Datagrams between nodes that only nodes with the keys of the system can read or create.

A sealed datagram is the RTPS header in clear and one submessage. Its id is in the range of vendors,
so analysers show the sender and skip the rest. The submessage has the key id as a number of four
bytes, a counter of eight, and what follows the header of the unsealed datagram, encrypted. The tag
behind it also authenticates all that is in clear, so an unsealed datagram needs no checksum.

Each node has a key for each channel, derived from the key of the group, the system and the guid
prefix. A datagram of another system or channel is therefore refused, even with the same key file.
"""

from __future__ import annotations

import struct
from typing import Final

from skerry.protocol.rtps.datagram_reader import HEADER_BYTES
from skerry.protocol.rtps.entities import Channel, guid_prefix
from skerry.protocol.rtps.submessages import SEALED
from skerry.protocol.sealing.group_keys import KeyRing
from skerry.protocol.sealing.opener import TAG_BYTES, Opener, SealRefusal, SealStatistics
from skerry.protocol.sealing.sealer import Sealer, SenderCiphers
from skerry.tracing import DropReason

__all__ = ["LINK_SEALED_SENDER_COUNT_MAX", "LINK_SEAL_BYTES", "LinkSeal"]

LINK_SEALED_SENDER_COUNT_MAX: Final = 8000
"""Senders whose recent datagrams are remembered: two channels of each node that discovery knows,
and as many of earlier runs."""
_PART: Final = struct.Struct("<BBH")
_LITTLE: Final = 0x01
_PAD: Final = bytes(3)
"""The upper bytes of the key id."""
_CLEAR_BYTES: Final = HEADER_BYTES + _PART.size + len(_PAD) + 9
LINK_SEAL_BYTES: Final = _CLEAR_BYTES - HEADER_BYTES + TAG_BYTES
"""What a seal adds to a datagram: 32 bytes."""
_BODY_BYTES: Final = LINK_SEAL_BYTES - _PART.size
"""The body of the submessage without the encrypted content."""
_LABEL: Final = b"skerry link sender key\x00"
_REASONS: Final = {
    SealRefusal.PLAIN: DropReason.UNSEALED,
    SealRefusal.SHORT: DropReason.SHORT,
    SealRefusal.VERSION: DropReason.BODY,
    SealRefusal.KEY: DropReason.KEY,
    SealRefusal.FORGED: DropReason.FORGED,
    SealRefusal.STALE: DropReason.STALE,
    SealRefusal.REPLAYED: DropReason.REPLAYED,
}


class LinkSeal:
    """The seal of one node, for both channels. Times are wall time. Call `begin` first.

    `freshness_ns` is how far from now a counter may be; see `Opener`.
    """

    def __init__(self, keys: KeyRing, *, system: int, freshness_ns: int) -> None:
        """`system` is the hash of its name. ConfigError if the encryption library is missing."""
        self._keys = keys
        self._ciphers = SenderCiphers(_LABEL + system.to_bytes(8, "big", signed=True))
        self._opener = Opener(
            keys,
            self._ciphers,
            freshness_ns=freshness_ns,
            sender_count_max=LINK_SEALED_SENDER_COUNT_MAX,
        )
        self._sealed_count = 0
        self._own: set[bytes] = set()
        self._sealers: dict[Channel, Sealer] = {}

    def begin(self, node: int) -> None:
        """Send as this node from now on. The replay windows of the others stay."""
        self._own = {guid_prefix(node, channel) for channel in Channel}
        self._sealers = {channel: Sealer(self._keys, self._ciphers) for channel in Channel}

    def rekey(self, keys: KeyRing) -> None:
        """Use another key ring from now on. The replay windows stay."""
        self._keys = keys
        self._opener.rekey(keys)
        for sealer in self._sealers.values():
            sealer.rekey(keys)

    def seal(self, channel: Channel, datagram: bytes, wall_ns: int) -> bytes:
        """Return the sealed datagram, which is different for each call."""
        size = len(datagram) - HEADER_BYTES + _BODY_BYTES
        head = b"%b%b%b" % (datagram[:HEADER_BYTES], _PART.pack(SEALED, _LITTLE, size), _PAD)
        self._sealed_count += 1
        return self._sealers[channel].seal(
            datagram[8:HEADER_BYTES], datagram[8:12], head, datagram[HEADER_BYTES:], wall_ns
        )

    def open(self, datagram: bytes, wall_ns: int) -> bytes | DropReason:
        """Return the unsealed datagram, or why it is dropped."""
        if datagram[HEADER_BYTES : HEADER_BYTES + 1] != b"%c" % SEALED:
            self._opener.refuse(SealRefusal.PLAIN)
            return DropReason.UNSEALED
        if len(datagram) < _CLEAR_BYTES + TAG_BYTES:
            self._opener.refuse(SealRefusal.SHORT)
            return DropReason.SHORT
        prefix = datagram[8:HEADER_BYTES]
        if prefix in self._own:
            # By multicast. Checked first, because it would be decrypted for nothing.
            return DropReason.OWN
        content = self._opener.open(prefix, prefix[:4], datagram, _CLEAR_BYTES, wall_ns)
        if isinstance(content, SealRefusal):
            return _REASONS[content]
        return datagram[:HEADER_BYTES] + content

    def statistics(self, wall_ns: int) -> SealStatistics:
        """Return the counters."""
        return SealStatistics(
            sealed_count=self._sealed_count,
            opened_count=self._opener.opened_count,
            refused={reason.value: count for reason, count in self._opener.refused.items()},
            key_id=self._sealers[Channel.CONTROL].key_id(wall_ns),
            sender_count=self._opener.sender_count,
        )
