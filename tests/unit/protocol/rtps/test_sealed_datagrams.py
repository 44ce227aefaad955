"""The seal of a node: both channels, its lives, and each reason for which a datagram is dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.rtps.datagram_reader import DatagramReader
from skerry.protocol.rtps.datagram_writer import DatagramWriter
from skerry.protocol.rtps.entities import Channel, guid_prefix
from skerry.protocol.rtps.sealed_datagrams import (
    LINK_SEAL_BYTES,
    LINK_SEALED_SENDER_COUNT_MAX,
    LinkSeal,
)
from skerry.protocol.rtps.submessages import SEALED, Data
from skerry.protocol.sealing.group_keys import KEY_BYTES, GroupKey, KeyRing
from skerry.tracing import DropReason

S = 1_000_000_000
WALL_NS = 1_794_726_418 * S
ME, PEER = 100, 200


def ring(key_id: int = 1, *, first: int = 1) -> KeyRing:
    return KeyRing([GroupKey(key_id=key_id, secret=bytes([first]) * KEY_BYTES)])


def make(node: int = PEER, keys: KeyRing | None = None, *, system: int = 7) -> LinkSeal:
    seal = LinkSeal(keys or ring(), system=system, freshness_ns=300 * S)
    seal.begin(node)
    return seal


def clear(node: int = PEER, channel: Channel = Channel.DATA, payload: bytes = b"abcd") -> bytes:
    writer = DatagramWriter(guid_prefix(node, channel), has_checksum=False)
    writer.data(Data(0x10000003, 1, payload))
    return writer.finish()


@given(payload=st.binary(max_size=400).map(lambda data: data[: len(data) // 4 * 4]))
def test_a_sealed_datagram_is_opened_and_read(payload: bytes) -> None:
    datagram = clear(payload=payload)
    sealed = make().seal(Channel.DATA, datagram, WALL_NS)
    assert len(sealed) == len(datagram) + LINK_SEAL_BYTES
    assert sealed[:20] == datagram[:20]
    assert sealed[20] == SEALED
    opened = make(ME).open(sealed, WALL_NS)
    assert opened == datagram
    found = DatagramReader(guid_prefix(ME, Channel.DATA), has_checksum=False).read(opened)
    assert not isinstance(found, DropReason)
    assert found.node == PEER


def test_each_reason_to_drop_a_datagram() -> None:
    receiver = make(ME)
    good = make().seal(Channel.DATA, clear(), WALL_NS)
    assert receiver.open(good, WALL_NS) == clear()
    own = make(ME).seal(Channel.DATA, clear(ME), WALL_NS)
    moved = bytearray(good)
    moved[11] = Channel.CONTROL
    cases = {
        DropReason.UNSEALED: [clear(), b"", b"RTPS", good[:20]],
        DropReason.SHORT: [good[:21], good[:51]],
        DropReason.OWN: [own],
        DropReason.KEY: [make(keys=ring(2)).seal(Channel.DATA, clear(), WALL_NS)],
        DropReason.FORGED: [
            make(keys=ring(first=9)).seal(Channel.DATA, clear(), WALL_NS),
            make(system=8).seal(Channel.DATA, clear(), WALL_NS),
            bytes(moved),
            good[:-1],
            good + b"\0",
        ],
        DropReason.STALE: [make().seal(Channel.DATA, clear(), WALL_NS - 301 * S)],
        DropReason.REPLAYED: [good],
    }
    for reason, datagrams in cases.items():
        for datagram in datagrams:
            assert receiver.open(datagram, WALL_NS) is reason
    refused = receiver.statistics(WALL_NS).refused
    assert refused == {
        "plain": 4,
        "short": 2,
        "version": 0,
        "key": 1,
        "forged": 5,
        "stale": 1,
        "replayed": 1,
    }


def test_a_node_without_keys_names_the_reason() -> None:
    sealed = make().seal(Channel.DATA, clear(), WALL_NS)
    for has_checksum in (True, False):
        reader = DatagramReader(guid_prefix(ME, Channel.DATA), has_checksum=has_checksum)
        assert reader.read(sealed) is DropReason.SEALED


def test_counters_increase_on_each_channel_and_never_repeat() -> None:
    seal, receiver = make(), make(ME)
    seen: list[tuple[int, int]] = []
    for step_ns in (0, 0, 5, -10 * S, 0):
        for channel in Channel:
            sealed = seal.seal(channel, clear(channel=channel), WALL_NS + step_ns)
            seen.append((channel, int.from_bytes(sealed[28:36], "big")))
            assert receiver.open(sealed, WALL_NS) == clear(channel=channel)
    assert len(set(seen)) == len(seen)
    for channel in Channel:
        counters = [counter for one, counter in seen if one is channel]
        assert counters == sorted(counters)
    assert receiver.statistics(WALL_NS).sender_count == 2
    assert seal.statistics(WALL_NS).sealed_count == len(seen)


def test_a_new_life_has_new_keys_and_remembers_what_was_received() -> None:
    seal, receiver = make(), make(ME)
    first = seal.seal(Channel.DATA, clear(), WALL_NS)
    assert receiver.open(first, WALL_NS) == clear()
    seal.begin(PEER + 1)
    second = seal.seal(Channel.DATA, clear(PEER + 1), WALL_NS)
    assert first[36:] != second[36:]
    receiver.begin(ME + 1)
    assert receiver.open(second, WALL_NS) == clear(PEER + 1)
    assert receiver.open(first, WALL_NS) is DropReason.REPLAYED


def test_new_keys_are_used_on_both_channels_at_once() -> None:
    seal, receiver = make(), make(ME)
    seal.rekey(ring(2))
    for channel in Channel:
        assert receiver.open(seal.seal(channel, clear(), WALL_NS), WALL_NS) is DropReason.KEY
    receiver.rekey(ring(2))
    for channel in Channel:
        sealed = seal.seal(channel, clear(channel=channel), WALL_NS)
        assert receiver.open(sealed, WALL_NS) == clear(channel=channel)
    assert seal.statistics(WALL_NS).key_id == 2


def test_senders_are_remembered_up_to_the_bound() -> None:
    receiver = make(1)
    for number in range(LINK_SEALED_SENDER_COUNT_MAX + 10):
        node = 1000 + number
        sealed = make(node).seal(Channel.DATA, clear(node), WALL_NS + number)
        assert receiver.open(sealed, WALL_NS) == clear(node)
    assert receiver.statistics(WALL_NS).sender_count == LINK_SEALED_SENDER_COUNT_MAX
