"""Links that receive whatever anyone may send: random, cut and changed datagrams."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, Final
from zlib import crc32

from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.direct_link import DirectConfig, DirectLink
from skerry.protocol.link.events import RecordsReceived, Stalled
from skerry.protocol.link.link import Link
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.datagram_reader import DatagramReader
from skerry.protocol.rtps.entities import Channel, StreamClass, guid_prefix, writer_id
from skerry.tracing import DropReason

__all__ = ["LinkUnderFire"]

_SERVER: Final = NodeType(name="Server")
_CLIENT: Final = NodeType(name="Client")
_TYPES: Final = NodeTypes([_SERVER, _CLIENT])
_NODE_A, _NODE_B, _NODE_C = 0x1122334455667788, 0x0A0B0C0D0E0F1011, 0x7F00000000000003
"""Those of the vectors. The links are of node b, to which most of them are addressed."""
_MESSAGE_BYTES_MAX: Final = 50_000
_WAITING_BYTES_MAX: Final = 3 * (_MESSAGE_BYTES_MAX + 20 * 1450)
"""What may wait of a node: a whole message and a window, for each of its acknowledged streams."""
_DIRECT_COUNT_MAX: Final = 20
_VECTORS: Final = Path(__file__).resolve().parent / "golden" / "rtps"
_WORDS: Final = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 256, 257)
_CHECK: Final = b"\xf0\x01\x04\0"


class LinkUnderFire:
    """Three links, and what is checked after each datagram."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._config = LinkConfig(datagram_bytes=1428, message_bytes_max=_MESSAGE_BYTES_MAX)
        self._now_ns = 0
        self._samples = [
            bytes.fromhex(json.loads(path.read_text(encoding="utf-8"))["hex"])
            for path in sorted(_VECTORS.glob("*.json"))
        ]
        self.links: list[Link | DirectLink] = []
        self.delivered_count = 0
        self.stalled_count = 0
        for channel in Channel:
            link = Link(
                channel=channel,
                node=_NODE_B,
                node_types=_TYPES,
                own_type=_SERVER,
                now_ns=0,
                config=self._config,
            )
            self.links.append(link)
        direct = DirectConfig(link=self._config, peer_count_max=_DIRECT_COUNT_MAX, idle_ms=200)
        self.links.append(DirectLink(node=_NODE_B, now_ns=0, config=direct))
        self._samples += self._traffic()
        self._renew()

    @property
    def drop_counts(self) -> dict[str, int]:
        """Datagrams that were dropped, by reason."""
        found: dict[str, int] = {}
        for link in self.links:
            for reason, count in link.statistics().drops.items():
                found[reason] = found.get(reason, 0) + count
        return found

    def shoot(self) -> None:
        """Receive one datagram. Raises AssertionError for what must not happen."""
        rng = self._rng
        data, is_intact = self._datagram()
        self._now_ns += rng.choice((1000, 1000, 1_000_000, 30_000_000))
        for link in self.links:
            if rng.random() < 0.3:
                link.advance(self._now_ns)
                link.take_events()  # of what was not acknowledged in time
            link.receive(data, Address("10.0.0.9", 7), self._now_ns)
            for event in link.take_events():
                assert is_intact, f"{data.hex()} without a right checksum caused {event}"
                self.delivered_count += isinstance(event, RecordsReceived)
                self.stalled_count += isinstance(event, Stalled)
            self._check(link)
        if rng.random() < 0.001:
            self._renew()

    def _check(self, link: Link | DirectLink) -> None:
        """Look at what the link sends, and what it keeps."""
        for one in link.take_transmits():
            address, data = one.destination, one.data
            reader = DatagramReader(guid_prefix(1, Channel(data[11])))
            found = reader.read(data)
            is_readable = not isinstance(found, DropReason) or found is DropReason.DESTINATION
            assert is_readable, f"{data.hex()} to {address} is {found}"
        inner = link._link if isinstance(link, DirectLink) else link
        assert len(inner.peers) <= _DIRECT_COUNT_MAX
        for node in inner.peers:
            waiting_bytes = inner.waiting_bytes(node)
            assert waiting_bytes <= _WAITING_BYTES_MAX, f"{waiting_bytes} bytes of one node wait"
        stream_count = len(inner._input._incoming) + len(inner._input._incoming_best)
        assert stream_count <= 4 * len(inner.peers), f"{stream_count} streams"

    def _renew(self) -> None:
        """Include the nodes of the vectors again, and send something to them."""
        for link in self.links:
            if isinstance(link, DirectLink):
                link.contact(_NODE_A, Address("10.0.0.1", 1))
                link.send_to(_NODE_A, 7, bytes(self._rng.randrange(3000)), self._now_ns)
                continue
            for node, node_type in ((_NODE_A, _SERVER), (_NODE_C, _CLIENT)):
                link.exclude(node, self._now_ns)
                link.meet(node, node_type, Address("10.0.0.1", 1))
                link.include(node, self._now_ns)
                for _ in range(12):
                    link.send_all(node_type, 7, bytes(1200), self._now_ns)
                link.send_to(node, 7, bytes(3000), self._now_ns)

    def _traffic(self) -> list[bytes]:
        """What node a sends to b: to all, to one, in fragments, welcome and requests."""
        found: list[bytes] = []
        for channel in Channel:
            link = Link(
                channel=channel,
                node=_NODE_A,
                node_types=_TYPES,
                own_type=_SERVER,
                now_ns=0,
                config=self._config,
            )
            link.meet(_NODE_B, _SERVER, Address("10.0.0.2", 1))
            link.include(_NODE_B, 0)
            for size in (8, 100, 1200, 5000):
                for is_reliable in (True, False):
                    link.send_all(_SERVER, 7, bytes(size), 0, is_reliable=is_reliable)
                    link.send_to(_NODE_B, 7, bytes(size), 0, is_reliable=is_reliable)
                    found += [one.data for one in link.take_transmits()]
            for now_ms in range(0, 3000, 50):
                link.advance(now_ms * 1_000_000)
                found += [one.data for one in link.take_transmits()]
        return found

    def _datagram(self) -> tuple[bytes, bool]:
        """A datagram, and whether its checksum is right."""
        rng = self._rng
        kind = rng.random()
        if kind < 0.1:
            return rng.randbytes(rng.randrange(100)), False
        data = bytearray(rng.choice(self._samples))
        if kind < 0.3:
            del data[rng.randrange(len(data)) :]
            return bytes(data), False
        del data[-8:]
        if kind < 0.5:
            other = rng.choice(self._samples)[20:-8]  # two datagrams in one
            data += other
        for _ in range(rng.randrange(4)):
            self._change(data)
        if rng.random() < 0.2:
            del data[rng.randrange(20, len(data) + 1) :]
        data += _CHECK
        check = crc32(bytes(data))
        is_intact = rng.random() < 0.7
        if not is_intact:
            check ^= 1 << rng.randrange(32)
        return bytes(data) + check.to_bytes(4, "little"), is_intact

    def _change(self, data: bytearray) -> None:
        rng = self._rng
        at = rng.randrange(len(data))
        if rng.random() < 0.3:
            data[12:20] = rng.choice((rng.randrange(40), _NODE_A, _NODE_C)).to_bytes(8, "big")
        elif rng.random() < 0.3:
            data[at] = rng.randrange(256)
        elif rng.random() < 0.7 and len(data) > 60:
            word: Any = rng.choice((*_WORDS, rng.randrange(300)))
            at = rng.randrange(20, len(data) - 4) // 4 * 4
            data[at : at + 4] = word.to_bytes(4, rng.choice(("little", "big")))
        else:
            one = writer_id(rng.choice(list(StreamClass)), rng.randrange(1 << 16))
            at = rng.randrange(20, max(21, len(data) - 4)) // 4 * 4
            data[at : at + 4] = one.to_bytes(4, "big")
