"""Sealed datagrams: only members read and make them, each is taken once, and keys take turns."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import ConfigError
from skerry.limits import DISTRIBUTOR_SENDER_COUNT_MAX
from skerry.protocol.distributor.events import UpdatesLost
from skerry.protocol.distributor.messages import RETRANSMISSION
from skerry.protocol.distributor.sealed_datagrams import SEAL_OVERHEAD_BYTES, GroupSeal
from skerry.protocol.machine import Address
from skerry.protocol.sealing.group_keys import KEY_BYTES, Cipher, GroupKey, KeyRing
from skerry.protocol.sealing.opener import REPLAY_COUNT_MAX, SealRefusal
from skerry.protocol.sealing.seal import Seal
from skerry.tracing import DropReason

S = 1_000_000_000
WALL_NS = 1_794_726_418 * S
HEADER = bytes.fromhex("01000105 0a000001 0000ef33 de07d77a 000103ae".replace(" ", ""))
PLAIN = HEADER + b"\x00\x00\x00\x01\x00\x00\x00\x00 and so on"


class Clock:
    """Wall time that a test moves."""

    def __init__(self) -> None:
        self.ns = WALL_NS

    def __call__(self) -> int:
        return self.ns


def key(key_id: int = 1, *, first: int = 1, **fields: Any) -> GroupKey:
    return GroupKey(key_id=key_id, secret=bytes([first]) * KEY_BYTES, **fields)


def make(*keys: GroupKey, clock: Clock | None = None, **options: Any) -> GroupSeal:
    return GroupSeal(KeyRing(keys or [key()]), wall_ns=clock or Clock(), **options)


def header_of(sender_id: int) -> bytes:
    return HEADER[:8] + sender_id.to_bytes(4, "big") + HEADER[12:]


def refused(seal: GroupSeal) -> dict[str, int]:
    return {reason: count for reason, count in seal.statistics().refused.items() if count}


@pytest.fixture(params=list(Cipher), ids=lambda cipher: cipher.value)
def cipher(request: pytest.FixtureRequest) -> Cipher:
    found: Cipher = request.param
    return found


def test_a_sealed_datagram_is_opened(cipher: Cipher) -> None:
    seal: Seal = make(key(cipher=cipher))
    sealed = seal.seal(PLAIN)
    assert make(key(cipher=cipher)).open(sealed) == PLAIN
    assert sealed[2:20] == PLAIN[2:20]
    assert PLAIN[20:] not in sealed


def test_the_overhead_is_always_the_same(cipher: Cipher) -> None:
    seal = make(key(cipher=cipher))
    assert seal.overhead_bytes == SEAL_OVERHEAD_BYTES == 25
    for size in (0, 1, 15, 16, 17, 7772):
        assert len(seal.seal(HEADER + bytes(size))) == 20 + size + 25


@given(body=st.binary(max_size=300), identity=st.binary(min_size=16, max_size=16))
def test_sealing_and_opening_preserves_any_datagram(body: bytes, identity: bytes) -> None:
    plain = HEADER[:4] + identity + body
    for cipher in Cipher:
        sender, receiver = make(key(cipher=cipher)), make(key(cipher=cipher))
        assert receiver.open(sender.seal(plain)) == plain


@given(data=st.binary(max_size=100))
def test_any_other_bytes_are_refused(data: bytes) -> None:
    seal = make()
    assert seal.open(data) is None
    assert seal.open(b"\x02\x00" + data) is None
    assert sum(refused(seal).values()) == 2


def test_a_change_of_any_bit_is_noticed(cipher: Cipher) -> None:
    sealed = make(key(cipher=cipher)).seal(PLAIN)
    receiver = make(key(cipher=cipher))
    for at in range(len(sealed)):
        for bit in range(8):
            changed = bytearray(sealed)
            changed[at] ^= 1 << bit
            assert receiver.open(bytes(changed)) is None, f"byte {at}"
    assert receiver.open(sealed) == PLAIN
    # Two bytes are the version, and one is the id of the key.
    assert refused(receiver) == {"version": 16, "key": 8, "forged": (len(sealed) - 3) * 8}


def test_any_part_of_a_sealed_datagram_is_refused() -> None:
    sealed, receiver = make().seal(PLAIN), make()
    for size in range(len(sealed)):
        assert receiver.open(sealed[:size]) is None
    assert receiver.open(sealed + b"x") is None
    assert set(refused(receiver)) == {"short", "forged"}


def test_a_datagram_is_accepted_once() -> None:
    sealed, receiver = make().seal(PLAIN), make()
    assert receiver.open(sealed) == PLAIN
    assert receiver.open(sealed) is None
    assert refused(receiver) == {"replayed": 1}


def test_the_same_datagram_sent_again_is_another_one() -> None:
    sender, receiver = make(), make()
    first, second = sender.seal(PLAIN), sender.seal(PLAIN)
    assert first != second
    assert receiver.open(second) == receiver.open(first) == PLAIN


def test_counters_are_remembered_in_any_order_up_to_the_bound() -> None:
    sender, receiver = make(), make()
    late, *rest = [sender.seal(PLAIN) for _ in range(2 * REPLAY_COUNT_MAX + 1)]
    *most, last = rest
    assert all(receiver.open(sealed) for sealed in reversed(most))
    # So many overtook it, and nothing was forgotten yet.
    assert receiver.open(late) == PLAIN
    assert not any(receiver.open(sealed) for sealed in [late, *most])
    assert receiver.open(last) == PLAIN


def test_datagrams_before_the_replay_window_are_refused() -> None:
    sender, receiver = make(), make()
    late, *rest = [sender.seal(PLAIN) for _ in range(2 * REPLAY_COUNT_MAX + 3)]
    assert all(receiver.open(sealed) for sealed in rest)
    assert receiver.open(late) is None
    assert not any(receiver.open(sealed) for sealed in rest)
    assert set(refused(receiver)) == {"replayed"}


def test_a_recorded_datagram_is_refused_by_a_receiver_that_never_received_it() -> None:
    sealed = make().seal(PLAIN)
    clock = Clock()
    receiver = make(clock=clock)
    clock.ns += 300 * S
    assert receiver.open(sealed) == PLAIN
    clock.ns += 1
    assert make(clock=clock).open(sealed) is None
    ahead = Clock()
    ahead.ns -= 301 * S
    late = make(clock=ahead)
    assert late.open(sealed) is None
    assert refused(late) == {"stale": 1}


def test_without_a_freshness_limit_the_time_is_not_checked() -> None:
    sealed = make().seal(PLAIN)
    clock = Clock()
    clock.ns = 5 * S
    receiver = make(clock=clock, freshness_s=0)
    assert receiver.open(sealed) == PLAIN
    assert receiver.open(sealed) is None


def test_a_clock_that_is_set_back_repeats_no_counter() -> None:
    clock = Clock()
    sender, receiver = make(clock=clock), make()
    counters = []
    for step_ns in (0, 5, -10 * S, 0, 20 * S):
        clock.ns += step_ns
        sealed = sender.seal(PLAIN)
        assert receiver.open(sealed) == PLAIN
        counters.append(int.from_bytes(sealed[21:29], "big"))
    assert counters == sorted(set(counters))


def test_the_counter_of_a_restarted_sender_continues() -> None:
    clock = Clock()
    first = make(clock=clock)
    before = [first.seal(PLAIN) for _ in range(3)]
    clock.ns += 1000
    after = make(clock=clock).seal(PLAIN)
    assert all(sealed[21:29] < after[21:29] for sealed in before)


def test_another_life_or_sender_has_another_key() -> None:
    """The encrypted bytes differ even with the same counter."""
    for at in (4, 11, 15, 19):
        other = bytearray(PLAIN)
        other[at] ^= 1
        one, two = make().seal(PLAIN), make().seal(bytes(other))
        assert one[21:29] == two[21:29]
        assert one[29:] != two[29:]


def test_no_key_serves_two_ciphers() -> None:
    sealed = make(key(cipher=Cipher.AES)).seal(PLAIN)
    receiver = make(key(cipher=Cipher.CHACHA))
    assert receiver.open(sealed) is None
    assert refused(receiver) == {"forged": 1}


def test_each_refusal_has_its_reason() -> None:
    clock = Clock()
    receiver = make(key(1), clock=clock)
    good = make(key(1)).seal(PLAIN)
    cases = {
        SealRefusal.PLAIN: PLAIN,
        SealRefusal.SHORT: good[:44],
        SealRefusal.VERSION: b"\x03" + good[1:],
        SealRefusal.KEY: make(key(2)).seal(PLAIN),
        SealRefusal.FORGED: make(key(1, first=9)).seal(PLAIN),
        SealRefusal.REPLAYED: good,
    }
    assert receiver.open(good) == PLAIN
    for reason, datagram in cases.items():
        assert receiver.open(datagram) is None
        assert receiver.statistics().refused[reason.value] == 1
    clock.ns += 301 * S
    assert receiver.open(good) is None
    assert receiver.statistics().refused == {reason.value: 1 for reason in SealRefusal}
    assert receiver.statistics().opened_count == 1


def test_senders_are_remembered_up_to_the_bound() -> None:
    clock = Clock()
    sender, receiver = make(clock=clock), make(clock=clock)
    sealed = []
    for number in range(DISTRIBUTOR_SENDER_COUNT_MAX + 1):
        clock.ns += 1
        sealed.append(sender.seal(header_of(number) + b"x"))
        assert receiver.open(sealed[-1])
    assert receiver.statistics().sender_count == DISTRIBUTOR_SENDER_COUNT_MAX
    assert not any(receiver.open(datagram) for datagram in sealed[1:])


def test_strangers_are_not_remembered() -> None:
    receiver = make()
    stranger = make(key(first=2))
    for number in range(10):
        assert receiver.open(stranger.seal(header_of(number) + b"x")) is None
    assert receiver.statistics().sender_count == 0


def test_the_key_changes_when_its_time_has_come() -> None:
    clock = Clock()
    keys = [key(1), key(2, first=2, from_ns=WALL_NS + S)]
    sender, receiver = make(*keys, clock=clock), make(*keys)
    assert receiver.open(first := sender.seal(PLAIN)) == PLAIN
    clock.ns += S
    assert receiver.open(second := sender.seal(PLAIN)) == PLAIN
    assert (first[20], second[20]) == (1, 2)
    assert sender.statistics().key_id == 2
    assert sender.statistics().sealed_count == 2


def test_a_new_ring_is_used_at_once_and_forgets_no_counter() -> None:
    sender, receiver = make(key(1)), make(key(1))
    first = sender.seal(PLAIN)
    assert receiver.open(first) == PLAIN
    sender.rekey(KeyRing([key(2, first=2)]))
    assert receiver.open(second := sender.seal(PLAIN)) is None
    receiver.rekey(KeyRing([key(1), key(2, first=2)]))
    assert receiver.open(second) == PLAIN
    assert receiver.open(first) is None
    receiver.rekey(KeyRing([key(2, first=7)]))
    assert receiver.open(sender.seal(PLAIN)) is None
    assert refused(receiver) == {"key": 1, "replayed": 1, "forged": 1}


def test_without_the_library_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(ConfigError, match="need the library cryptography") as error:
        make()
    assert error.value.hint == "pip install 'skerry[security]'"


# -- between connections


def test_members_of_a_group_receive_only_datagrams_of_members(bus: Any) -> None:
    clock = Clock()
    ours = [make(key(1), clock=clock) for _ in range(2)]
    theirs = [make(key(1, first=2), clock=clock) for _ in range(2)]
    subscriber, publisher = bus.subscriber(seal=ours[0]), bus.publisher(seal=ours[1])
    other_subscriber, other_publisher = (
        bus.subscriber(seal=theirs[0]),
        bus.publisher(seal=theirs[1]),
    )
    open_subscriber, open_publisher = bus.subscriber(), bus.publisher()
    bus.publish(publisher, "/ours")
    bus.publish(other_publisher, "/theirs")
    bus.publish(open_publisher, "/open")
    assert bus.subjects(subscriber) == ["/ours"]
    assert bus.subjects(other_subscriber) == ["/theirs"]
    assert bus.subjects(open_subscriber) == ["/open"]
    assert refused(ours[0]).keys() == {"plain", "forged"}
    refusals = sum(refused(ours[0]).values())
    assert subscriber.statistics().faults[DropReason.SEAL.value] == refusals > 0
    assert subscriber.statistics().sender_count == 1
    assert open_subscriber.statistics().faults[DropReason.VERSION.value] > 0


def test_retransmissions_are_sealed_with_the_present_key(bus: Any) -> None:
    clock = Clock()
    keys = [key(1), key(2, first=2, from_ns=WALL_NS + S)]
    subscriber = bus.subscriber(seal=make(*keys, clock=clock))
    publisher = bus.publisher(seal=make(*keys, clock=clock))
    bus.publish(publisher, "/0")
    bus.drop = lambda _source, target, data: target is subscriber and data[2] == 1 and data[20] == 1
    bus.publish(publisher, "/1")
    clock.ns += S
    bus.publish(publisher, "/2")
    bus.run_ms(50)
    assert bus.subjects(subscriber) == ["/0", "/1", "/2"]
    assert [data[20] for data in bus.sent_of(RETRANSMISSION)] == [2]
    assert bus.events_of(subscriber, UpdatesLost) == []


def test_keys_without_a_seal_are_refused(bus: Any) -> None:
    with pytest.raises(ConfigError, match="was given no seal"):
        bus.join(key_file="keys.toml")
    bus.join(key_file="keys.toml", seal=make())


def test_large_updates_fit_their_segments(bus: Any) -> None:
    subscriber = bus.subscriber(seal=make())
    publisher = bus.publisher(seal=make(), segment_bytes=256)
    bus.publish(publisher, "/a", data=bytes(range(256)) * 10)
    assert bus.updates(subscriber) == [("/a", bytes(range(256)) * 10)]
    assert max(len(data) for _, data in bus.sent) == 256


def test_recorded_datagrams_that_are_replayed_change_nothing(bus: Any) -> None:
    subscriber, publisher = bus.subscriber(seal=make()), bus.publisher(seal=make())
    bus.publish(publisher, "/1", "/2", "/3")
    before = len(bus.sent)
    for _, data in list(bus.sent):
        subscriber.receive(data, Address("127.0.0.9", 9), bus.now_ns)
    bus.settle()
    assert bus.subjects(subscriber) == ["/1", "/2", "/3"]
    assert subscriber.statistics().faults[DropReason.SEAL.value] == before
