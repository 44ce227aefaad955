"""The sending half: numbers, holding back, signs of life, bandwidth, answers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from skerry.errors import LimitExceeded, LocalProtocolError, WouldBlock
from skerry.limits import DISTRIBUTOR_BATCH_BYTES, DISTRIBUTOR_MEMO_BYTES_MAX, UPDATE_BYTES_DEFAULT
from skerry.protocol.distributor.config import Dialect, DistributorConfig
from skerry.protocol.distributor.events import SenderInfo, TooLargeForJava
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.distributor.messages import (
    CONFIGURATION,
    GOODBYE,
    HEARTBEAT,
    NAK,
    RELAYED,
    RETRANSMISSION,
    UPDATE,
    Configuration,
    HeartbeatMessage,
    Nak,
    RepairRequest,
    UpdateMessage,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.sending.sender import Sender
from skerry.protocol.distributor.wire import JAVA_WIRE, PYCAST_WIRE, wire_of

MS = 1_000_000
IDENTITY = SenderIdentity(
    address=b"\x0a\0\0\1", sender_id=61_234, start_ms=1_794_726_418_298, application_id=7
)
GROUP = b"\xef\xc0\x07\x01"


def sender(
    *,
    first_seq: int = 1,
    overhead_bytes: int = 0,
    opened: bool = True,
    segment: int = 0,
    deliveries: Deliveries | None = None,
    **config: Any,
) -> Sender:
    made = Sender(
        identity=IDENTITY,
        group=GROUP,
        port=4711,
        config=DistributorConfig(**config),
        rng=Random(1),
        now_ns=0,
        overhead_bytes=overhead_bytes,
        first_seq=first_seq,
        segment_bytes=segment,
        deliveries=deliveries,
    )
    if opened:
        made.open_publisher(0)
        made.ready.clear()
    return made


def taken(made: Sender, dialect: Dialect = Dialect.JAVA) -> list[Any]:
    ready, made.ready = made.ready, []
    return [wire_of(dialect).decode(datagram) for datagram in ready]


def updates_of(made: Sender) -> list[bytes]:
    ready, made.ready = made.ready, []
    return [datagram for datagram in ready if datagram[2] == UPDATE]


def kinds(made: Sender) -> list[int]:
    return [message.header.kind for message in taken(made)]


# -- numbers


def test_datagrams_are_numbered_from_one_on() -> None:
    made = sender()
    assert made.last_seq == 0
    made.publish("/a", b"1", 0)
    made.publish("/a", b"2", 0)
    made.publish("/b", bytes(20_000), 0)
    updates = taken(made)
    assert [update.seq for update in updates] == [1, 2, 3, 4, 5]
    assert [update.header.flags for update in updates] == [5, 5, 1, 2, 4]
    assert [update.count for update in updates] == [1] * 5
    assert made.last_seq == 5
    assert made.sent_update_count == 3


def test_numbers_wrap_after_32_bits() -> None:
    made = sender(first_seq=2**32 - 1)
    for _ in range(3):
        made.publish("/a", b"", 0)
    assert [update.seq for update in taken(made)] == [2**32 - 1, 0, 1]
    assert made.last_seq == 1
    made.request(2**32 - 1, 0, 0)
    made.advance(20 * MS)
    assert [update.seq for update in taken(made)] == [2**32 - 1, 0]


def test_a_large_update_begins_with_a_full_datagram_after_the_open_one() -> None:
    made = sender(segment_bytes=256, holdback_delay_ms=10, holdback_threshold_per_s=0)
    made.publish("/a", b"0", 0)
    made.publish("/a", b"1", 0)
    made.publish("/foo/large", bytes(500), 0)
    ready = made.ready
    assert [len(datagram) for datagram in ready[-3:]] == [256, 256, 92]
    assert all(len(datagram) <= 256 for datagram in ready)


def test_an_update_that_just_fits_is_not_cut_and_one_byte_more_is() -> None:
    made = sender(segment_bytes=256)
    made.publish("/a", bytes(256 - 28 - 10 - 2), 0)
    assert [len(datagram) for datagram in made.ready] == [256]
    made.ready.clear()
    made.publish("/a", bytes(256 - 28 - 10 - 1), 0)
    assert [update.header.flags for update in taken(made)] == [1, 4]


def test_room_is_left_for_a_seal() -> None:
    made = sender(segment_bytes=256, overhead_bytes=25)
    made.publish("/a", bytes(600), 0)
    assert max(len(datagram) for datagram in made.ready) == 256 - 25


def test_all_of_a_gateway_is_marked() -> None:
    made = sender(is_gateway=True, segment_bytes=256)
    made.publish("/a", b"", 0)
    made.publish("/a", bytes(300), 0)
    assert all(update.header.flags & RELAYED for update in taken(made))


# -- what may be published


@pytest.mark.parametrize("subject", ["", "a", "a/b", "*", "...", "/a/*", "/a/...", "/a/…"])
def test_an_invalid_subject_is_rejected(subject: str) -> None:
    with pytest.raises(LocalProtocolError):
        sender().publish(subject, b"", 0)


def test_only_ascii_is_published_unless_allowed() -> None:
    with pytest.raises(LocalProtocolError, match="not ASCII"):
        sender().publish("/å", b"", 0)
    made = sender(unicode_subjects=True)
    made.publish("/å", b"", 0)
    assert "/å".encode() in made.ready[0]


def test_a_subject_has_to_fit_a_datagram_with_some_data() -> None:
    made = sender(segment_bytes=128)
    made.publish("/" + "a" * 88, bytes(1000), 0)
    with pytest.raises(LimitExceeded, match="size of a subject is 90, the limit is 89"):
        made.publish("/" + "a" * 89, b"", 0)


def test_an_update_larger_than_the_limit_is_refused() -> None:
    made = sender(cache_bytes_max=0)
    with pytest.raises(LimitExceeded, match="size of an update"):
        made.publish("/a", bytes(UPDATE_BYTES_DEFAULT + 1), 0)
    assert made.ready == []
    made.publish("/a", bytes(UPDATE_BYTES_DEFAULT), 0)
    assert len(made.ready) > 1000


def test_without_a_publisher_nothing_is_published() -> None:
    made = sender(opened=False)
    with pytest.raises(LocalProtocolError, match="no publisher"):
        made.publish("/a", b"", 0)
    with pytest.raises(LocalProtocolError, match="no publisher"):
        made.publish_many([("/a", b"")], 0, 0)


def test_heads_of_subjects_are_forgotten_before_they_are_too_many() -> None:
    made = sender(cache_bytes_max=0)
    size = 1000
    count = DISTRIBUTOR_MEMO_BYTES_MAX // (2 * size) + 1
    for number in range(count):
        made.make_head(f"/{number}".ljust(size, "x"))
    assert len(made.heads) < count
    assert sum(2 * len(subject) for subject in made.heads) <= DISTRIBUTOR_MEMO_BYTES_MAX


# -- holding back


def test_without_a_holdback_each_update_is_sent_at_once() -> None:
    made = sender()
    for _ in range(1000):
        made.publish("/a", b"", 0)
    assert len(made.ready) == 1000


def test_updates_are_held_back_only_while_there_are_many() -> None:
    made = sender(holdback_delay_ms=10, holdback_threshold_per_s=100)
    for ms in range(0, 1000, 20):
        made.publish("/a", b"", ms * MS)
        made.advance(ms * MS)
    assert len(updates_of(made)) == 50  # 50 a second are few: each went by itself
    made.ready.clear()
    for ms in range(1000, 2000):
        made.publish("/a", b"", ms * MS)
        made.advance(ms * MS)
    made.flush(2000 * MS)
    updates = [message for message in taken(made) if isinstance(message, UpdateMessage)]
    assert sum(update.count for update in updates) == 1000
    assert len(updates) < 160
    # The rate slides: once it is high there are no single updates at the beginning of each window.
    assert min(update.count for update in updates[60:-1]) > 5


def test_no_update_waits_longer_than_the_delay() -> None:
    made = sender(holdback_delay_ms=10, holdback_threshold_per_s=0)
    made.publish("/a", b"", 0)
    made.flush(0)
    made.ready.clear()
    made.publish("/a", b"", 5 * MS)
    assert made.ready == []
    assert made.deadline_ns() == 15 * MS
    made.advance(15 * MS - 1)
    assert made.ready == []
    made.advance(15 * MS)
    assert [update.count for update in taken(made)] == [1]


def held(**config: Any) -> Sender:
    """A sender whose open datagram is held until 15 ms."""
    made = sender(holdback_delay_ms=10, holdback_threshold_per_s=0, **config)
    made.publish("/a", b"", 0)
    made.flush(0)
    made.take_ready()
    made.publish("/a", b"0", 5 * MS)
    return made


def test_full_datagrams_are_batched_without_reading_the_clock() -> None:
    made = held()
    head = made.heads["/a"]
    until_ns, due_ns = made.hold_until_ns, made.deadline_ns()
    count = 0
    while made.put_next(head, bytes(1000)):
        assert (made.hold_until_ns, made.deadline_ns()) == (until_ns, due_ns)
        assert made.ready_bytes < DISTRIBUTOR_BATCH_BYTES
        count += 1
        while made.has_room(head, bytes(1000)):
            made.put(head, bytes(1000))
    assert count == 9
    made.advance(15 * MS)
    updates = taken(made)
    assert [update.seq for update in updates] == list(range(2, 12))
    assert [update.count for update in updates] == [1, *[7] * 9]
    assert made.sent_update_count == 1 + 1 + 7 * 9


@pytest.mark.parametrize("config", [{"bandwidth_mbit_max": 1}, {"fake_send_loss_permille": 1}])
def test_datagrams_are_not_batched_where_each_has_to_be_checked(config: Any) -> None:
    made = held(**config)
    assert not made.put_next(made.heads["/a"], bytes(7000))


def test_an_update_that_no_datagram_has_room_for_does_not_join_the_others() -> None:
    made = held()
    most = 7800 - 28 - len(made.heads["/a"]) - 4
    assert not made.put_next(made.heads["/a"], bytes(most + 1))
    assert made.put_next(made.heads["/a"], bytes(most))


def test_after_a_pause_the_first_update_is_sent_at_once() -> None:
    made = sender(holdback_delay_ms=10, holdback_threshold_per_s=0)
    for _ in range(100):
        made.publish("/a", b"", 0)
    made.flush(0)
    made.ready.clear()
    made.publish("/a", b"", 11 * MS)
    assert [update.count for update in taken(made)] == [1]


def test_a_full_datagram_is_sent_without_waiting() -> None:
    made = sender(holdback_delay_ms=1000, holdback_threshold_per_s=0, segment_bytes=128)
    for _ in range(20):
        made.publish("/a", bytes(8), 0)
    # 28 bytes of header and 5 updates of 20.
    assert [len(datagram) for datagram in made.ready[-3:]] == [128] * 3


# -- bandwidth


def test_a_publisher_has_to_wait_when_the_bandwidth_is_used_up() -> None:
    made = sender(bandwidth_mbit_max=0.25)
    with pytest.raises(WouldBlock, match="publish again in 250 ms"):
        for _ in range(100):
            made.publish("/a", bytes(1000), 0)
    assert 7812 <= sum(map(len, made.ready)) < 7812 + 1100
    ready_ns = made.ready_ns(0)
    assert ready_ns == 250 * MS
    made.publish("/a", bytes(1000), ready_ns)


def test_over_time_the_bandwidth_is_kept_and_used() -> None:
    made = sender(bandwidth_mbit_max=0.25)
    updates = [("/a", bytes(100))] * 1000
    now_ns = first = 0
    while now_ns < 20_000 * MS:
        first = (first + made.publish_many(updates, first, now_ns)) % 1000
        now_ns = max(made.ready_ns(now_ns), now_ns + MS)
    assert 0.9 * 31_250 * 20 < made.sent_byte_count < 1.1 * 31_250 * 20


def test_the_bytes_of_a_seal_count_as_bandwidth() -> None:
    counts = []
    for overhead_bytes in (0, 25):
        made = sender(bandwidth_mbit_max=0.25, overhead_bytes=overhead_bytes)
        while made.ready_ns(0) == 0:
            made.publish("/a", b"", 0)
        counts.append(len(made.ready))
    # 7812 bytes are allowed in a quarter of a second; one has 40 without its seal.
    assert counts == [7812 // 40 + 1, 7812 // 65 + 1]


def test_control_messages_do_not_count_as_bandwidth_and_answers_do() -> None:
    made = sender(bandwidth_mbit_max=0.25, heartbeat_interval_ms=1, tail_heartbeat_ms=0)
    made.publish("/a", bytes(3000), 0)
    for ms in range(200):
        made.advance(ms * MS)
    assert made.ready_ns(200 * MS) == 200 * MS
    made.request(1, 1, 200 * MS)
    made.advance(220 * MS)
    assert made.resent_datagram_count == 1
    made.publish("/a", bytes(3000), 220 * MS)
    # Three times 3000 bytes are more than the 7812 of an interval.
    assert made.ready_ns(220 * MS) > 220 * MS


def test_answers_leave_half_of_the_bandwidth_to_new_data() -> None:
    made = sender(bandwidth_mbit_max=10, cache_bytes_max=10**8)
    for _ in range(100):
        made.publish("/a", bytes(7000), made.ready_ns(0))
    start_ms = made.ready_ns(0) // MS + 1000
    made.ready.clear()
    for ms in range(start_ms, start_ms + 2000):
        made.request(1, 100, ms * MS)
        made.advance(ms * MS)
    assert made.resent_byte_count <= 2.1 * 10e6 / 8 / 2
    assert made.resent_byte_count >= 0.7 * 10e6 / 8 / 2, "each is sent once before it comes again"


def test_the_pieces_of_a_large_update_are_sent_at_the_pace_of_the_limit() -> None:
    made = sender(bandwidth_mbit_max=8, tail_heartbeat_ms=50)
    made.publish("/a", bytes(1_000_000), 0)
    sent_bytes = []
    for ms in range(1200):
        made.advance(ms * MS)
        if ms and ms < 990:
            assert made.has_backlog
        updates = updates_of(made)
        sent_bytes.append(sum(map(len, updates)))
    assert not made.has_backlog
    assert max(sent_bytes) <= 3 * 7800, "a millisecond is worth 1000 bytes"
    assert sum(sent_bytes[:500]) == pytest.approx(500_000, abs=20_000)


def test_a_heartbeat_does_not_count_pieces_that_wait_for_bandwidth() -> None:
    made = sender(bandwidth_mbit_max=1, heartbeat_interval_ms=10, configuration_interval_ms=10)
    made.publish("/a", bytes(100_000), 0)
    highest = 0
    for ms in range(900):
        made.advance(ms * MS)
        for message in taken(made):
            if isinstance(message, UpdateMessage):
                highest = message.seq
            elif isinstance(message, HeartbeatMessage):
                assert message.last_seq == highest
    assert highest == 13


def test_a_goodbye_follows_the_pieces_that_wait_for_bandwidth() -> None:
    made = sender(bandwidth_mbit_max=1)
    made.publish("/a", bytes(100_000), 0)
    made.close_publisher(0)
    assert made.over_ns is None
    found = []
    now_ns = 0
    while made.has_backlog:
        now_ns = made.deadline_ns() or 0
        made.advance(now_ns)
        found += taken(made)
    assert [m.last_seq for m in found if isinstance(m, HeartbeatMessage)] == [13]
    assert isinstance(found[-1], HeartbeatMessage)
    assert made.over_ns == now_ns + 800 * MS


def test_an_update_beyond_the_size_of_the_history_is_kept_as_a_whole() -> None:
    made = sender(cache_bytes_max=20_000)
    made.publish("/a", bytes(100_000), 0)
    assert made.cache_count == 13
    made.publish("/b", bytes(7000), 0)
    assert made.cache_count == 14
    for _ in range(20):
        made.publish("/b", bytes(7000), 0)
    assert made.cache_bytes <= 20_000


# -- in a group with Java programs


def test_pieces_are_as_large_as_java_programs_read_if_no_size_is_configured() -> None:
    made = sender(segment=1472)
    made.publish("/a", bytes(10_000), 0)
    assert max(map(len, updates_of(made))) == 1472
    made.java_detected()
    made.publish("/a", bytes(10_000), 0)
    assert max(map(len, updates_of(made))) == 8192
    assert made.segment_bytes == 8192


@pytest.mark.parametrize("segment_bytes", [7800, 1472])
def test_a_size_that_was_chosen_stays(segment_bytes: int) -> None:
    made = sender(segment_bytes=segment_bytes)
    made.java_detected()
    made.publish("/a", bytes(20_000), 0)
    assert max(map(len, updates_of(made))) == segment_bytes


def test_an_update_of_three_pieces_is_reported_where_java_programs_are() -> None:
    deliveries = Deliveries()
    made = sender(deliveries=deliveries)
    made.publish("/a", bytes(20_000), 0)
    assert deliveries.take() == []
    made.java_detected()
    limit = 2 * (8192 - 28) - len("/a") - 10
    made.publish("/a", bytes(limit), 0)
    assert deliveries.take() == []
    made.publish("/a", bytes(limit + 1), 0)
    assert deliveries.take() == [TooLargeForJava(subject="/a", size=limit + 1, limit=limit)]


# -- signs of life


def test_the_first_publisher_announces_the_sender_and_its_last_number() -> None:
    made = sender(opened=False, application="feed")
    made.open_publisher(0)
    configuration, heartbeat = taken(made)
    assert isinstance(configuration, Configuration)
    assert configuration.application == "feed"
    assert (configuration.heartbeat_interval_ms, configuration.configuration_interval_ms) == (
        3000,
        3000,
    )
    assert (configuration.group, configuration.port) == (GROUP, 4711)
    assert configuration.start == IDENTITY.start_ms
    assert isinstance(heartbeat, HeartbeatMessage)
    assert (heartbeat.last_seq, heartbeat.start_ms) == (0, IDENTITY.start_ms)
    made.open_publisher(0)
    assert made.ready == []


def test_heartbeats_are_sent_without_data_and_announcements_always() -> None:
    made = sender(heartbeat_interval_ms=100, configuration_interval_ms=1000)
    seen = []
    for ms in range(0, 1001, 50):
        made.advance(ms * MS)
        if ms == 150:
            made.publish("/a", b"", ms * MS)
        seen += [(ms, kind) for kind in kinds(made)]
    beats = [ms for ms, kind in seen if kind == HEARTBEAT]
    # The second one at 100 comes with the early announcement, as there was no data yet.
    assert beats == [100, 100, 300, 400, 500, 600, 700, 800, 900, 1000]
    assert [ms for ms, kind in seen if kind == CONFIGURATION] == [100, 300]


def beats(made: Sender, from_ms: int, stop_ms: int) -> list[int]:
    """The times of heartbeats, in milliseconds."""
    found = []
    for ms in range(from_ms, stop_ms):
        made.advance(ms * MS)
        found += [ms for kind in kinds(made) if kind == HEARTBEAT]
    return found


def test_heartbeats_after_data_are_sent_early_and_repeated() -> None:
    made = sender(tail_heartbeat_ms=100, heartbeat_interval_ms=1000)
    made.publish("/a", b"", 0)
    assert beats(made, 1, 1000) == [100, 300, 700]
    # New data starts the short wait again, also during a long one.
    made.publish("/a", b"", 1000 * MS)
    assert beats(made, 1001, 1650) == [1100, 1300]
    made.publish("/a", b"", 1650 * MS)
    assert beats(made, 1651, 1800) == [1750]


def test_a_stream_without_pauses_needs_no_heartbeats() -> None:
    made = sender(tail_heartbeat_ms=100, heartbeat_interval_ms=1000)
    found = []
    for ms in range(0, 3000, 50):
        made.publish("/a", b"", ms * MS)
        found += beats(made, ms, ms + 50)
    assert found == []
    assert beats(made, 3000, 3151) == [3050]


@pytest.mark.parametrize("tail_ms", [0, 1000, 2000])
def test_heartbeats_after_data_can_be_switched_off(tail_ms: int) -> None:
    made = sender(tail_heartbeat_ms=tail_ms, heartbeat_interval_ms=1000)
    made.publish("/a", b"", 0)
    assert beats(made, 1, 3000) == [2000]


def test_a_sender_without_publishers_sends_no_heartbeat_after_data() -> None:
    made = sender(tail_heartbeat_ms=100)
    made.publish("/a", b"", 0)
    made.close_publisher(1)
    assert beats(made, 1, 1000) == []
    made.open_publisher(1000 * MS)
    made.ready.clear()
    made.publish("/a", b"", 1000 * MS)
    assert beats(made, 1001, 1200) == [1100]


def test_the_goodbye_of_the_last_publisher_is_sent_eight_times() -> None:
    made = sender(holdback_delay_ms=10, holdback_threshold_per_s=0)
    made.open_publisher(0)
    made.publish("/a", b"", 0)
    made.publish("/a", b"", 1)
    made.ready.clear()
    made.close_publisher(1)
    assert made.ready == []
    made.close_publisher(1)
    update, goodbye = taken(made)
    assert isinstance(update, UpdateMessage)
    assert isinstance(goodbye, HeartbeatMessage)
    assert (goodbye.header.kind, goodbye.last_seq) == (GOODBYE, 2)
    later = []
    while (due_ns := made.deadline_ns()) is not None:
        made.advance(due_ns)
        later += kinds(made)
    assert later == [GOODBYE] * 7
    assert made.serves_until_ns == 1 + 800 * MS


def test_a_sender_can_begin_again_after_its_goodbye() -> None:
    made = sender(tail_heartbeat_ms=0)
    made.publish("/a", b"", 0)
    made.close_publisher(0)
    made.ready.clear()
    made.open_publisher(1)
    assert kinds(made) == [CONFIGURATION, HEARTBEAT]
    made.publish("/a", b"", 1)
    assert [update.seq for update in taken(made)] == [2]
    assert made.deadline_ns() == 100 * MS + 1  # an early announcement; no goodbye is due


def test_another_identity_is_announced() -> None:
    made = sender()
    other = SenderIdentity(address=b"\x0a\0\0\1", sender_id=1, start_ms=2, application_id=7)
    made.become(other, 0)
    assert kinds(made) == [CONFIGURATION, HEARTBEAT]
    made.publish("/a", b"", 0)
    (update,) = taken(made)
    assert (update.header.sender_id, update.header.start) == (1, 2)


# -- answers


def test_an_answer_is_the_same_datagram_with_another_kind() -> None:
    made = sender()
    made.publish("/a", b"1", 0)
    made.publish("/a", b"2", 0)
    first, second = made.ready
    made.ready = []
    made.request(1, 2, 0)
    made.advance(20 * MS - 1)
    assert made.ready == []
    made.advance(20 * MS)
    again = [datagram[:2] + bytes([RETRANSMISSION]) + datagram[3:] for datagram in (first, second)]
    assert made.ready == again
    assert (made.resent_datagram_count, made.resent_byte_count) == (2, len(first) + len(second))


def test_datagrams_with_large_and_small_updates_are_answered_as_they_were_sent() -> None:
    made = sender(holdback_delay_ms=1000, holdback_threshold_per_s=0, is_gateway=True)
    rng = Random(3)
    updates = [("/a", rng.randbytes(rng.choice([0, 10, 511, 512, 2000]))) for _ in range(300)]
    for subject, data in updates[:100]:
        made.publish(subject, data, 1)
    assert made.publish_many(updates[100:200], 0, 1) == 100
    cut = [piece for _, data in updates[200:] for piece in (head_of(made, data), data)]
    assert made.publish_pieces(cut, 1) == 200
    made.publish("/a", bytes(20_000), 1)
    made.publish("/a", bytes(600), 1)
    made.flush(1)
    sent = updates_of(made)
    made.request(1, len(sent), 1)
    while len(made._resender):
        made.advance(made.deadline_ns() or 0)
    answers = [data for data in made.ready if data[2] == RETRANSMISSION]
    assert [data[:2] + b"\1" + data[3:] for data in answers] == sent


def head_of(made: Sender, data: bytes) -> bytes:
    return made.heads["/a"] + len(data).to_bytes(4, "big")


def test_requests_that_make_no_sense_are_not_answered() -> None:
    made = sender(tail_heartbeat_ms=0)
    made.publish("/a", b"1", 0)
    made.ready.clear()
    for first, last in ((2, 2), (2, 1), (3, 2**31), (2**31, 2**31 + 5)):
        made.request(first, last, 0)
    assert made.deadline_ns() == 100 * MS
    made.advance(30 * MS)
    assert made.ready == []


def test_of_a_request_for_more_than_was_sent_the_part_that_was_is_answered() -> None:
    made = sender()
    made.publish("/a", b"1", 0)
    made.ready.clear()
    made.request(1, 9, 0)
    made.advance(20 * MS)
    assert [update.seq for update in taken(made)] == [1]


def test_a_nak_names_the_datagrams_that_are_no_longer_kept() -> None:
    made = sender(cache_bytes_max=100)
    for _ in range(10):
        made.publish("/a", b"123", 0)
    made.ready.clear()
    made.request(1, 10, 0)
    made.advance(20 * MS)
    nak, *answers = taken(made)
    assert isinstance(nak, Nak)
    assert nak.header.kind == NAK
    assert nak.seqs == tuple(range(1, 9))
    assert [answer.seq for answer in answers] == [9, 10]
    assert made.naks_sent_count == 1


def test_a_long_nak_is_cut_into_datagrams() -> None:
    made = sender(cache_bytes_max=0, segment_bytes=128)
    for _ in range(60):
        made.publish("/a", b"", 0)
    made.ready.clear()
    made.request(1, 60, 0)
    made.advance(20 * MS)
    assert all(len(datagram) <= 128 for datagram in made.ready)
    assert [seq for nak in taken(made) for seq in nak.seqs] == list(range(1, 61))


def test_old_datagrams_leave_the_cache() -> None:
    made = sender(cache_age_s=60, cache_clean_interval_ms=2000, heartbeat_interval_ms=3_600_000)
    made.publish("/a", b"", 0)
    for second in range(0, 62, 2):
        assert made.cache_count == 1
        assert made.cache_bytes == len(made.ready[0])
        made.advance(second * 1000 * MS)
    assert made.cache_count == 0


def test_some_datagrams_are_not_sent_on_purpose_and_can_be_requested() -> None:
    made = sender(fake_send_loss_permille=300)
    for _ in range(1000):
        made.publish("/a", b"", 0)
    assert 600 < len(made.ready) < 800
    assert len(made.ready) + made.fake_loss_count == 1000
    assert made.cache_count == 1000
    nothing = sender(fake_send_loss_permille=1000)
    nothing.publish("/a", b"", 0)
    assert nothing.ready == []


def test_a_request_to_another_sender_names_it_and_us() -> None:
    made = sender(host="here", application="me")
    other = SenderInfo(
        address="10.0.0.2", sender_id=5, start=0x1_0000_0007, application_id=1, application="x"
    )
    request = JAVA_WIRE.decode(made.messages.request_to(other, 3, 4))
    assert isinstance(request, RepairRequest)
    assert (request.target_id, request.target_start) == (5, 7)
    assert (request.first_seq, request.last_seq) == (3, 4)
    assert (request.address, request.host, request.application) == (IDENTITY.address, "here", "me")
    assert request.header.sender_id == IDENTITY.sender_id


def test_pycast_is_spoken_by_option() -> None:
    made = sender(opened=False, dialect=Dialect.PYCAST)
    made.open_publisher(0)
    made.publish("/a", b"1", 0)
    assert made.ready[0][4:8] == IDENTITY.address[::-1]
    configuration, heartbeat, update = taken(made, Dialect.PYCAST)
    assert configuration.start == IDENTITY.start_ms // 1000
    assert heartbeat.start_ms is None
    assert update.body == PYCAST_WIRE.subject_head(b"/a") + b"\0\0\0\1" + b"1"
    assert update.header.kind == UPDATE


def test_full_datagrams_wait_for_others_no_longer_than_their_first_update_may() -> None:
    made = sender(holdback_delay_ms=10, holdback_threshold_per_s=0)
    made.publish("/a", b"", 0)
    made.take_ready()
    made.publish("/a", b"", 1 * MS)
    assert made.deadline_ns() == 11 * MS
    # It is full, and another one is open and held.
    made.publish("/a", bytes(7750), 6 * MS)
    assert made.ready_bytes == len(made.ready[0])
    assert made.hold_until_ns > 6 * MS
    assert made.deadline_ns() == 11 * MS
    made.advance(11 * MS)
    assert len(made.take_ready()) == 1
    assert made.ready_bytes == 0
    assert made.deadline_ns() == 16 * MS
