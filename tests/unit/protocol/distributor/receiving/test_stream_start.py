"""The start of a stream: the decision, and the search for its first number by durations."""

from __future__ import annotations

from random import Random

import pytest

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.messages import (
    MORE,
    POSITION,
    RETRANSMISSION,
    UPDATE,
    WHOLE,
    DatagramHeader,
    Position,
)
from skerry.protocol.distributor.receiving.stream_start import (
    ASK_COUNT_MAX,
    StartSearch,
    StreamOrigin,
    StreamStart,
)

MS = 1_000_000
RETRY_NS = 200 * MS


def search(
    *,
    is_data: bool,
    seq: int = 50,
    low_seq: int = 1,
    now_ns: int = 1000 * MS,
    delay_ns: int = 0,
) -> StartSearch:
    """A subscription at 900 ms, and the first message at 1000 ms."""
    return StartSearch(
        seq=seq,
        low_seq=low_seq,
        lowest_seq=1,
        is_data=is_data,
        since_ns=900 * MS,
        now_ns=now_ns,
        retry_ns=RETRY_NS,
        delay_ns=delay_ns,
    )


def answer(start: StartSearch, first_seq: int, elapsed_us: int, now_ns: int) -> int | None:
    """Pass the answer to the present request of the search."""
    span_us = start._span_us
    header = DatagramHeader(kind=POSITION, address=bytes(4), sender_id=1, start=1, application_id=1)
    position = Position(
        header=header, seq=50, span_us=span_us, first_seq=first_seq, elapsed_us=elapsed_us
    )
    return start.answered(position, 50, first_seq, now_ns)


def test_data_asks_for_the_time_since_the_subscription_and_a_little_more() -> None:
    start = search(is_data=True)
    assert start.take_request(1000 * MS) == (50, 100_000 + 98)
    assert start.stop_seq == 50
    assert answer(start, 40, 0, 1010 * MS) == 40
    assert answer(start, 70, 0, 1010 * MS) == 50, "what was received belongs to the stream"


def test_a_heartbeat_asks_how_long_ago_the_last_datagram_was_published() -> None:
    start = search(is_data=False, delay_ns=5 * MS)
    assert start.take_request(1004 * MS) is None
    assert start.take_request(1005 * MS) == (50, 0)
    assert start.stop_seq == 51
    assert answer(start, 50, 200_000, 1010 * MS) == 51, "before the subscription"


def test_after_a_heartbeat_with_data_since_the_subscription_the_span_is_requested() -> None:
    start = search(is_data=False)
    start.take_request(1000 * MS)
    assert answer(start, 50, 10_000, 1010 * MS) is None
    assert start.due_ns == 1010 * MS
    # It would have arrived at 1000 ms, a hundred after the subscription.
    assert start.take_request(1010 * MS) == (50, 100_000 + 108)
    assert answer(start, 30, 10_000, 1020 * MS) == 30


def test_the_first_number_of_all_needs_no_second_answer() -> None:
    start = search(is_data=False, seq=50, low_seq=50)
    start.take_request(1000 * MS)
    assert answer(start, 50, 10_000, 1010 * MS) == 50


def test_answers_to_others_change_nothing() -> None:
    start = search(is_data=True)
    header = DatagramHeader(kind=POSITION, address=bytes(4), sender_id=1, start=1, application_id=1)
    other = Position(header=header, seq=50, span_us=7, first_seq=1, elapsed_us=0)
    assert start.answered(other, 50, 1, 1010 * MS) is None
    assert start.answered(other, 49, 1, 1010 * MS) is None


def test_a_search_asks_a_bounded_number_of_times() -> None:
    start = search(is_data=True)
    now_ns = 1000 * MS
    waits = []
    for _ in range(ASK_COUNT_MAX):
        assert not start.is_over(now_ns)
        assert start.take_request(now_ns) is not None
        assert start.take_request(now_ns) is None
        assert not start.is_over(now_ns)
        waits.append(start.due_ns - now_ns)
        now_ns = start.due_ns
    assert start.is_over(now_ns)
    assert waits == [25 * MS, 50 * MS, 100 * MS] + [RETRY_NS] * (ASK_COUNT_MAX - 3)


def test_a_request_that_has_to_wait_is_not_counted() -> None:
    start = search(is_data=True)
    start.postpone(1000 * MS)
    assert start.due_ns == 1000 * MS + RETRY_NS


def test_a_time_of_any_length_fits_a_message() -> None:
    start = search(is_data=True, now_ns=1 << 80)
    request = start.take_request(1 << 80)
    assert request is not None
    assert request[1] < 1 << 63


# -- the decision


def decision(
    *, origin: StreamOrigin = StreamOrigin.UNKNOWN, is_asked: bool = False, since_ns: int | None = 0
) -> StreamStart:
    return StreamStart(
        origin=origin,
        since_ns=since_ns,
        is_asked=is_asked,
        config=DistributorConfig(),
        gap_count_max=10,
        rng=Random(1),
    )


def datagram(kind: int = UPDATE, flags: int = WHOLE) -> bytes:
    return bytes((1, 0, kind, flags))


def test_a_stream_of_a_sender_that_does_not_answer_begins_where_it_is_received() -> None:
    beginning = decision().at_data(datagram(), 5, None, 0)
    assert beginning is not None
    assert (beginning.next_seq, beginning.highest_seq, beginning.unknown_seq) == (5, 4, 1)
    beginning = decision().at_heartbeat(5, None, 0)
    assert beginning is not None
    assert (beginning.next_seq, beginning.highest_seq, beginning.unknown_seq) == (6, 5, 1)


def test_without_a_subscription_nothing_is_reported_as_unknown() -> None:
    beginning = decision(since_ns=None, is_asked=True).at_data(datagram(), 5, None, 0)
    assert beginning is not None
    assert (beginning.next_seq, beginning.unknown_seq) == (5, None)


@pytest.mark.parametrize("first", [datagram(RETRANSMISSION), datagram(flags=MORE)])
def test_a_stream_does_not_begin_with_a_retransmission_or_within_an_update(first: bytes) -> None:
    assert decision().at_data(first, 5, None, 0) is None


def test_a_stream_that_was_received_before_does_not_begin_with_an_old_number() -> None:
    assert decision().at_data(datagram(), 5, 6, 0) is None
    assert decision().at_heartbeat(4, 6, 0) is None
    beginning = decision().at_heartbeat(5, 6, 0)
    assert beginning is not None
    assert (beginning.next_seq, beginning.unknown_seq) == (6, None)


@pytest.mark.parametrize("seq", [1, 10])
def test_the_whole_stream_of_a_sender_that_started_later_is_requested(seq: int) -> None:
    start = decision(origin=StreamOrigin.STARTED)
    for beginning in (start.at_data(datagram(), seq, None, 0), start.at_heartbeat(seq, None, 0)):
        assert beginning is not None
        assert (beginning.next_seq, beginning.highest_seq) == (1, 0)
    late = start.at_data(datagram(), 11, None, 0)
    assert late is not None
    assert late.next_seq == 11


def test_a_sender_that_answers_is_asked() -> None:
    start = decision(is_asked=True)
    beginning = start.at_data(datagram(), 5, None, 100 * MS)
    assert beginning is not None
    assert (beginning.next_seq, beginning.highest_seq, beginning.unknown_seq) == (1, 4, None)
    assert start.search is not None
    assert start.search.take_request(100 * MS) == (5, 100_000 + 98)


def test_a_reset_forgets_the_subscription() -> None:
    start = decision(is_asked=True, origin=StreamOrigin.STARTED)
    start.at_data(datagram(), 50, 1, 0)
    start.reset()
    assert (start.search, start.since_ns, start.origin) == (None, None, StreamOrigin.UNKNOWN)


def test_the_first_datagram_of_all_needs_no_search() -> None:
    start = decision(is_asked=True)
    beginning = start.at_data(datagram(), 1, None, 0)
    assert beginning is not None
    assert (beginning.next_seq, beginning.highest_seq, start.search) == (1, 0, None)
