"""Remote senders: when they are removed, and where their streams continue."""

from __future__ import annotations

from random import Random

import pytest

from skerry.limits import DISTRIBUTOR_INTERVAL_MS_MAX, DISTRIBUTOR_SENDER_COUNT_MAX
from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.events import RemovalReason, SenderInfo
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.gaps import ReorderBuffer
from skerry.protocol.distributor.receiving.receiver import Receiver
from skerry.protocol.distributor.receiving.remote_senders import Departed, RemoteSender
from skerry.protocol.distributor.subjects import Subjects

MS = 1_000_000
CONFIG = DistributorConfig()


def remote() -> RemoteSender:
    receiver = Receiver(
        sender=SenderInfo(address="10.0.0.1", sender_id=1, start=1, application_id=1),
        config=CONFIG,
        text_length_bytes=4,
        subjects=Subjects(),
        deliveries=Deliveries(),
        room=ReorderBuffer(0),
        rng=Random(1),
    )
    return RemoteSender(receiver, CONFIG, 0)


def test_a_silent_sender_is_removed_after_the_heartbeats_it_may_lose() -> None:
    sender = remote()
    assert sender.due_ns() == 33_000 * MS
    assert sender.removal(33_000 * MS - 1) is None
    assert sender.removal(33_000 * MS) is RemovalReason.SILENT
    sender.received_ns = 5 * MS
    assert sender.due_ns() == 33_005 * MS


def test_the_announced_intervals_are_used() -> None:
    sender = remote()
    sender.announcement_received(heartbeat_interval_ms=100, configuration_interval_ms=200, now_ns=0)
    assert sender.due_ns() == 800 * MS
    sender.received_ns = 500 * MS
    assert sender.removal(800 * MS) is RemovalReason.UNANNOUNCED
    sender.announcement_received(
        heartbeat_interval_ms=100, configuration_interval_ms=200, now_ns=800 * MS
    )
    assert sender.removal(800 * MS) is None


def test_a_sender_that_never_announced_itself_need_not() -> None:
    sender = remote()
    sender.received_ns = 10**9 * MS
    assert sender.removal(10**9 * MS) is None


@pytest.mark.parametrize(
    ("told_ms", "believed_ms"),
    [(0, 1), (2**32 - 1, DISTRIBUTOR_INTERVAL_MS_MAX), (DISTRIBUTOR_INTERVAL_MS_MAX + 1,) * 2],
)
def test_unreasonable_intervals_are_bounded(told_ms: int, believed_ms: int) -> None:
    sender = remote()
    sender.announcement_received(
        heartbeat_interval_ms=told_ms, configuration_interval_ms=1000, now_ns=0
    )
    sender.announcement_received(
        heartbeat_interval_ms=1000, configuration_interval_ms=told_ms, now_ns=0
    )
    sender.received_ns = 2**62
    believed_ns = min(believed_ms, DISTRIBUTOR_INTERVAL_MS_MAX) * 4 * MS
    assert sender.removal(believed_ns - 1) is None
    assert sender.removal(believed_ns) is RemovalReason.UNANNOUNCED


def test_newer_data_cancels_a_goodbye() -> None:
    sender = remote()
    sender.goodbye_received(last_seq=5, now_ns=0)
    sender.goodbye_received(last_seq=5, now_ns=100 * MS)
    assert sender.due_ns() == 800 * MS
    sender.data_received(5)
    assert sender.removal(800 * MS) is RemovalReason.GOODBYE
    sender.data_received(6)
    assert not sender.is_leaving
    assert sender.removal(800 * MS) is None


def test_a_goodbye_at_the_end_of_the_numbers_is_overtaken_by_the_first_ones() -> None:
    sender = remote()
    sender.goodbye_received(last_seq=2**32 - 1, now_ns=1)
    sender.data_received(2**32 - 2)
    assert sender.is_leaving
    sender.data_received(0)
    assert not sender.is_leaving


def test_the_streams_of_departed_senders_are_remembered_up_to_a_bound() -> None:
    departed = Departed()
    for number in range(DISTRIBUTOR_SENDER_COUNT_MAX):
        departed.add(b"%d" % number, number, 5)
    departed.add(b"nobody listened", None, 6)
    assert departed.forgot_ns == 6
    assert len(departed) == DISTRIBUTOR_SENDER_COUNT_MAX
    assert departed.take(b"0") is None
    assert departed.take(b"1") == 1
    assert b"1" not in departed
    departed.clear()
    assert b"2" in departed
    assert departed.take(b"2") is None


def test_a_leaving_sender_is_kept_while_it_answers_and_datagrams_are_missing() -> None:
    sender = remote()
    sender.receiver.resume(1)
    sender.receiver.heartbeat_received(3, 0)
    sender.goodbye_received(last_seq=3, now_ns=0)
    assert sender.removal(800 * MS) is None
    sender.received_ns = 900 * MS  # an answer came
    assert sender.removal(2400 * MS) is None
    assert sender.removal(2600 * MS) is RemovalReason.GOODBYE, "it was silent for two timeouts"


def test_a_sender_that_left_is_not_waited_for_longer_than_it_would_stay() -> None:
    sender = remote()
    sender.receiver.resume(1)
    sender.receiver.heartbeat_received(3, 0)
    sender.goodbye_received(last_seq=3, now_ns=0)
    sender.received_ns = 8700 * MS
    assert sender.removal(8799 * MS) is None
    sender.received_ns = 8900 * MS
    assert sender.removal(9000 * MS) is RemovalReason.GOODBYE
