"""Streams of several senders under anything at all: every call ends, and no number is unaccounted.

The limits are tiny, so that they are reached all the time: few bytes may wait, in a room that all
streams share, and few numbers may be missing. The steps are given by bytes, three for each.
"""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.protocol.distributor.config import DistributorConfig, LossPolicy
from skerry.protocol.distributor.events import Delivered, LossReason, SenderInfo, UpdatesLost
from skerry.protocol.distributor.messages import (
    END,
    MORE,
    RETRANSMISSION,
    START,
    UPDATE,
    WHOLE,
    DatagramHeader,
    UpdateMessage,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.gaps import ReorderBuffer
from skerry.protocol.distributor.receiving.receiver import Receiver
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import JAVA_WIRE

pytestmark = pytest.mark.slow

U32 = 0xFFFFFFFF
GAP_COUNT_MAX = 6
STREAM_COUNT = 3
PIECES = {2: (START, b"ab"), 3: (MORE, b"cd"), 4: (END, b"ef")}
"""The numbers whose remainder by 8 is one of these make up a large update."""
BROKEN = {6: (START, b"ab"), 7: (END, b"")}
"""And these would make up one, were they as long as they say."""
LARGE = JAVA_WIRE.subject_head(b"/large") + (6).to_bytes(4, "big")


@pytest.fixture(autouse=True)
def _watched() -> Iterator[None]:
    """A call that does not end would not let any test end: then all of it ends, and says where."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def piece(flags: int, data: bytes) -> tuple[int, bytes]:
    return flags, LARGE + data if flags == START else data


def content(seq: int) -> tuple[int, bytes]:
    """Flags and body of the datagram with this number."""
    found = PIECES.get(seq % 8) or BROKEN.get(seq % 8)
    if found is not None:
        return piece(*found)
    return WHOLE, JAVA_WIRE.subject_head(b"/%d" % (seq & U32)) + b"\0\0\0\1x"


def datagram(seq: int, flags: int, body: bytes, kind: int = UPDATE) -> bytes:
    header = DatagramHeader(
        kind=kind, flags=flags, address=b"\x0a\0\0\1", sender_id=1, start=2, application_id=3
    )
    return JAVA_WIRE.encode(UpdateMessage(header=header, seq=seq, count=1, body=body))


class Stream:
    """A receiver, and what must be true of it."""

    def __init__(self, world: World, base: int) -> None:
        self.world = world
        self.sender = SenderInfo(address="10.0.0.1", sender_id=base, start=2, application_id=3)
        self.place: int | None = None
        """The number after all that was delivered or told lost."""
        self.place_known = base
        self.taken: dict[int, bytes] = {}
        """Datagrams that were accepted, by their numbers."""
        self.is_stopped = False
        self.lost: set[int] = set()
        self.done: set[int] = set()
        self.begin(None)

    def begin(self, next_seq: int | None) -> None:
        self.receiver = Receiver(
            sender=self.sender,
            config=self.world.config,
            text_length_bytes=4,
            subjects=self.world.subjects,
            deliveries=self.world.deliveries,
            room=self.world.room,
            rng=self.world.rng,
            gap_count_max=GAP_COUNT_MAX,
        )
        self.is_stopped = False
        if next_seq is not None:
            self.receiver.resume(next_seq)

    def absolute(self, seq: int) -> int:
        """The number as it is counted here, where none wraps."""
        distance = (seq - self.place_known) & U32
        return self.place_known + (distance - 2**32 if distance >> 31 else distance)

    # -- what happens

    def data(self, seq: int, *, flags: int, body: bytes, kind: int = UPDATE) -> None:
        receiver = self.receiver
        was_synchronised = receiver.is_synchronised
        made = datagram(seq, flags, body, kind)
        fault = receiver.receive(made, self.world.now_ns)
        if not receiver.is_synchronised:
            assert fault is None
            return
        if not was_synchronised:
            assert kind == UPDATE
            assert flags & START
            self.resumed_at(seq)
        if fault is None:
            self.taken[seq] = made

    def beat(self, seq: int) -> None:
        was_synchronised = self.receiver.is_synchronised
        self.receiver.heartbeat_received(seq & U32, self.world.now_ns)
        if not was_synchronised and self.receiver.is_synchronised:
            self.resumed_at(seq + 1)

    def resumed_at(self, seq: int) -> None:
        assert self.place_known - 8 * GAP_COUNT_MAX < seq
        self.place = self.place_known = seq
        self.taken.clear()
        self.lost.clear()

    def ask(self) -> None:
        for first, last in self.receiver.take_requests(self.world.now_ns):
            for seq in range(first, first + ((last - first) & U32) + 1):
                assert any(seq & U32 == missing & U32 for missing in self.missing)

    def desynchronise(self) -> None:
        self.receiver.desynchronise()
        self.place = None
        self.is_stopped = False

    def end(self) -> None:
        receiver = self.receiver
        receiver.end(self.world.now_ns)
        self.world.look()
        assert (len(receiver.gaps), len(receiver.waiting), receiver.waiting.size) == (0, 0, 0)
        if receiver.is_synchronised and not receiver.is_stopped:
            assert receiver._next_seq == receiver._highest_seq + 1
        if receiver.is_synchronised:
            # The pieces so far are gone with it.
            self.pass_to(self.absolute(receiver._next_seq))
        self.taken.clear()
        self.begin(receiver.next_seq)

    # -- what is delivered

    def delivered(self, event: Delivered) -> None:
        assert event.numbers is not None
        assert len(event.numbers) == len(event.updates)
        for (index, number), (subject, data) in zip(event.numbers, event.updates, strict=True):
            assert event.numbers[index] == (index, number)
            seq = self.absolute(number)
            self.pass_to(seq)
            if subject == "/large":
                assert len(data) == 6
            else:
                assert (subject, data) == (f"/{seq & U32}", b"x")
            self.done.add(seq)
            self.is_stopped = False
            self.pass_to(seq + 1, is_told=True)

    def reported_lost(self, event: UpdatesLost) -> None:
        first, stop = self.absolute(event.first_seq), self.absolute(event.stop_seq)
        assert first < stop
        stops = self.world.config.loss_policy is LossPolicy.STOP
        is_harmless = event.reason in (LossReason.REMOVED, LossReason.MALFORMED)
        assert event.is_stopped == (stops and not is_harmless)
        self.is_stopped = event.is_stopped
        if event.is_stopped:
            # It may come after all, and make whole what was begun before.
            self.only_pieces_before(first)
            return
        self.pass_to(first)
        self.lost.update(range(first, stop))
        self.pass_to(stop, is_told=True)

    def pass_to(self, seq: int, *, is_told: bool = False) -> None:
        """All before `seq` is done with; what was not told can only be pieces."""
        if not is_told:
            self.only_pieces_before(seq)
        assert self.place is not None
        for last in range(self.place, seq):
            self.whole_was_delivered(last)
        self.place = self.place_known = seq

    def only_pieces_before(self, stop: int) -> None:
        assert self.place is not None
        assert self.place <= stop
        for seq in range(self.place, stop):
            assert self.taken[seq][3] & WHOLE != WHOLE

    def whole_was_delivered(self, last: int) -> None:
        """Whether a large update that ends here, if there is one, was delivered."""
        seqs = range(last - 2, last + 1)
        sound = [self.taken.get(seq, b"")[3:] == datagram(seq, *content(seq))[3:] for seq in seqs]
        if last % 8 == 4 and all(sound) and not self.lost.intersection(seqs):
            assert last in self.done

    # -- what is always true

    @property
    def missing(self) -> set[int]:
        return set(self.receiver.gaps._missing)

    def check(self) -> None:
        receiver = self.receiver
        waiting, gone, missing = set(receiver.waiting.contents), set(receiver._gone), self.missing
        if not receiver.is_synchronised:
            assert not waiting | gone | missing
            return
        expected = range(receiver._next_seq, receiver._highest_seq + 1)
        assert sorted([*waiting, *gone, *missing]) == list(expected)
        assert len(gone) + len(missing) <= GAP_COUNT_MAX
        assert receiver.waiting.size == sum(
            len(one[1]) for one in receiver.waiting.contents.values()
        )
        assert receiver.is_stopped <= self.is_stopped
        if not receiver.is_stopped:
            assert receiver._next_seq not in waiting | gone
        if missing:
            due_ns = receiver.gaps.due_ns
            assert due_ns is not None
            assert due_ns <= min(ask.due_ns for ask in receiver.gaps._missing.values())
        # All before it is delivered, except the pieces of incomplete updates.
        self.only_pieces_before(self.absolute(receiver._next_seq))


class World:
    """Streams that share a room, and what became of them."""

    def __init__(self, *, policy: LossPolicy, base: int, room_bytes: int) -> None:
        self.config = DistributorConfig(
            loss_policy=policy, waiting_bytes_max=room_bytes, request_retry_count_max=1
        )
        self.subjects = Subjects()
        self.subjects.add("/...", None)
        self.deliveries = Deliveries()
        self.deliveries.is_numbered = True
        self.room = ReorderBuffer(room_bytes)
        self.rng = Random(1)
        self.now_ns = 0
        self.streams = [Stream(self, base + n) for n in range(STREAM_COUNT)]

    def step(self, kind: int, which: int, where: int) -> None:
        stream = self.streams[which % STREAM_COUNT]
        # Near what is expected next, and sometimes behind it or too far ahead.
        seq = stream.place_known - 2 + where % 12
        if seq < stream.absolute(stream.receiver._next_seq) - GAP_COUNT_MAX:
            # So far behind it would be far ahead.
            return
        flags, body = content(seq)
        if kind < 120:
            stream.data(seq, flags=flags, body=body)
        elif kind < 160:
            stream.data(seq, flags=flags, body=body, kind=RETRANSMISSION)
        elif kind < 175:
            odd_flags = (START, MORE, END)[which // STREAM_COUNT % 3]
            odd_flags, body = piece(odd_flags, b"abcdefgh"[: where % 9])
            stream.data(seq, flags=odd_flags, body=body)
        elif kind < 180:
            stream.data(seq, flags=WHOLE, body=b"junk")
        elif kind < 200:
            stream.beat(seq)
        elif kind < 220:
            naks = [(seq + n) & U32 for n in range(which % 4)]
            stream.receiver.nak_received(tuple(naks))
        elif kind < 228:
            stream.receiver.request_seen(seq & U32, (seq + which - 3) & U32, self.now_ns)
        elif kind < 246:
            self.now_ns += where * 10_000_000
            stream.ask()
        elif kind < 251:
            stream.desynchronise()
        else:
            stream.end()

    def look(self) -> None:
        """Take the delivered events."""
        by_sender = {stream.sender.sender_id: stream for stream in self.streams}
        for event in self.deliveries.take():
            if isinstance(event, Delivered):
                by_sender[event.sender.sender_id].delivered(event)
            else:
                assert isinstance(event, UpdatesLost)
                by_sender[event.sender.sender_id].reported_lost(event)

    def check(self) -> None:
        self.look()
        for stream in self.streams:
            stream.check()
        assert self.room.size == sum(stream.receiver.waiting.size for stream in self.streams)
        # A stream without any datagram in it may still add one.
        assert self.room.size <= self.config.waiting_bytes_max + STREAM_COUNT * 60


def play(program: bytes, **how: Any) -> None:
    world = World(**how)
    for at in range(0, len(program) - 2, 3):
        world.step(*program[at : at + 3])
        world.check()
    for stream in world.streams:
        stream.end()
    assert world.room.size == 0


@settings(max_examples=150)
@given(
    st.binary(min_size=60, max_size=600),
    st.sampled_from(LossPolicy),
    st.sampled_from([1, 2**31 - 10, 2**32 - 10]),
    st.sampled_from([60, 130, 190]),
)
def test_in_any_order_of_input_no_update_is_lost_silently_or_delivered_twice(
    program: bytes, policy: LossPolicy, base: int, room_bytes: int
) -> None:
    play(program, policy=policy, base=base, room_bytes=room_bytes)


def test_long_runs_of_any_input_end() -> None:
    for seed in range(20):
        rng = Random(seed)
        policy = rng.choice(list(LossPolicy))
        play(rng.randbytes(1500), policy=policy, base=2**32 - 50, room_bytes=130)
