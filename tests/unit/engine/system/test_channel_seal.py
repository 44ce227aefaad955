"""The seal of both channels of a node."""

from __future__ import annotations

from skerry.engine.system.channel_seal import ChannelSeal
from skerry.engine.system.config import SystemConfig
from skerry.protocol.link.link import Link
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import Channel, guid_prefix
from skerry.protocol.rtps.sealed_datagrams import LINK_SEAL_BYTES
from skerry.protocol.rtps.submessages import Data
from skerry.protocol.sealing.group_keys import KEY_BYTES, GroupKey, KeyRing

WALL_NS = 1_794_726_418_000_000_000
FAR = Address("10.0.0.9", 1)
TYPES = NodeTypes([NodeType()])


def ring(first: int = 1) -> KeyRing:
    return KeyRing([GroupKey(key_id=1, secret=bytes([first]) * KEY_BYTES)])


def made(node: int, keys: KeyRing | None) -> ChannelSeal:
    config = SystemConfig(
        system="harbour",
        name=f"n{node}",
        node_types=TYPES,
        type_name="node",
        control=Address("10.0.0.1", 1),
        data=Address("10.0.0.1", 2),
        keys=keys,
    )
    seal = ChannelSeal(config)
    seal.begin(node)
    return seal


def link() -> Link:
    return Link(
        channel=Channel.DATA, node=1, node_types=TYPES, own_type=next(iter(TYPES)), now_ns=0
    )


def datagram(node: int) -> bytes:
    writer = DatagramWriter(guid_prefix(node, Channel.DATA), has_checksum=False)
    writer.data(Data(0x10000003, 1, b"abcd"))
    return writer.finish()


def test_without_keys_datagrams_pass_unchanged() -> None:
    seal, clear = made(1, None), datagram(2)
    assert seal.seal(Channel.DATA, [clear], WALL_NS) == [clear]
    assert seal.open(link(), clear, FAR, WALL_NS) == clear
    assert seal.statistics(WALL_NS) is None
    assert seal.link_config == made(2, None).link_config


def test_with_keys_the_other_end_opens_what_is_sealed() -> None:
    sender, receiver, counted = made(2, ring()), made(1, ring()), link()
    clear = [datagram(2), datagram(2)]
    sealed = sender.seal(Channel.DATA, clear, WALL_NS)
    assert [len(one) - LINK_SEAL_BYTES for one in sealed] == [len(one) for one in clear]
    assert [receiver.open(counted, one, FAR, WALL_NS) for one in sealed] == clear
    bare = made(1, None).link_config
    assert sender.link_config.datagram_bytes == bare.datagram_bytes - LINK_SEAL_BYTES
    statistics = receiver.statistics(WALL_NS)
    assert statistics is not None
    assert counted.statistics().drops == {}


def test_the_link_counts_what_is_refused_but_not_own_datagrams() -> None:
    mine, stranger, counted = made(1, ring()), made(2, ring(9)), link()
    (own,) = mine.seal(Channel.DATA, [datagram(1)], WALL_NS)
    (forged,) = stranger.seal(Channel.DATA, [datagram(2)], WALL_NS)
    assert [mine.open(counted, one, FAR, WALL_NS) for one in (own, forged, datagram(2))] == [
        b""
    ] * 3
    assert sum(counted.statistics().drops.values()) == 2
    stranger.rekey(ring())
    (known,) = stranger.seal(Channel.DATA, [datagram(2)], WALL_NS)
    assert mine.open(counted, known, FAR, WALL_NS) == datagram(2)
