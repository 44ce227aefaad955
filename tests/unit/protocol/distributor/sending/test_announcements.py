"""The schedule of announcements, heartbeats and goodbyes."""

from __future__ import annotations

from typing import Any

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.identity import SenderIdentity
from skerry.protocol.distributor.messages import CONFIGURATION, GOODBYE, HEARTBEAT
from skerry.protocol.distributor.sending.announcements import Announcements
from skerry.protocol.distributor.sending.control_messages import ControlMessages

MS = 1_000_000
IDENTITY = SenderIdentity(address=b"\x0a\0\0\1", sender_id=1, start_ms=2, application_id=3)


class Rig:
    """Announcements, and the kinds of messages that they send, by milliseconds."""

    def __init__(self, **config: Any) -> None:
        settings = DistributorConfig(**config)
        messages = ControlMessages(IDENTITY, settings, group=bytes(4), port=1)
        self.announcements = Announcements(messages, settings, next_seq=1, now_ns=0)
        self.next_seq = 1
        self.opened_ns = 0

    def run(self, stop_ms: int) -> list[tuple[int, int]]:
        sent: list[tuple[int, int]] = []
        due_ns = self.announcements.deadline_ns()
        while due_ns is not None and due_ns < stop_ms * MS:
            found = self.announcements.advance(
                next_seq=self.next_seq, last_seq=0, opened_ns=self.opened_ns, now_ns=due_ns
            )
            sent += [(due_ns // MS, data[2]) for data in found]
            due_ns = self.announcements.deadline_ns()
        return sent


def test_a_sender_is_announced_often_at_first() -> None:
    rig = Rig(heartbeat_interval_ms=10_000, configuration_interval_ms=5000)
    begun = rig.announcements.begin(next_seq=1, last_seq=0, now_ns=0)
    assert [data[2] for data in begun] == [CONFIGURATION, HEARTBEAT]
    early = [(ms, kind) for ms in (100, 300, 1000) for kind in (CONFIGURATION, HEARTBEAT)]
    assert rig.run(6001) == [*early, (6000, CONFIGURATION)]


def test_heartbeats_are_sent_in_intervals_without_data() -> None:
    rig = Rig(heartbeat_interval_ms=1000, configuration_interval_ms=90_000)
    rig.announcements.begin(next_seq=1, last_seq=0, now_ns=0)
    rig.next_seq = 2
    sent = rig.run(4001)
    assert [ms for ms, kind in sent if kind == HEARTBEAT] == [2000, 3000, 4000]


def test_heartbeats_after_data_are_sent_with_a_doubled_wait() -> None:
    rig = Rig(tail_heartbeat_ms=10, heartbeat_interval_ms=100, configuration_interval_ms=90_000)
    rig.announcements.data_sent(0)
    assert rig.announcements.tail_wait_ns == rig.announcements.tail_first_ns
    assert rig.run(1000) == [(ms, HEARTBEAT) for ms in (10, 30, 70, 150)]
    assert rig.announcements.tail_wait_ns != rig.announcements.tail_first_ns


def test_a_heartbeat_after_data_waits_for_the_last_data() -> None:
    rig = Rig(tail_heartbeat_ms=10, heartbeat_interval_ms=15)
    rig.announcements.data_sent(0)
    rig.opened_ns = 7 * MS
    assert rig.run(1000) == [(17, HEARTBEAT)]


def test_goodbyes_are_repeated_over_one_request_timeout() -> None:
    rig = Rig(request_timeout_ms=800)
    rig.announcements.begin(next_seq=1, last_seq=0, now_ns=0)
    rig.announcements.stop()
    assert rig.announcements.deadline_ns() is None
    (first,) = rig.announcements.say_goodbye(0, 0)
    assert first[2] == GOODBYE
    assert rig.run(10_000) == [(ms, GOODBYE) for ms in range(100, 800, 100)]


def test_a_sender_that_begins_again_says_no_more_goodbyes() -> None:
    rig = Rig(heartbeat_interval_ms=10_000, configuration_interval_ms=90_000)
    rig.announcements.say_goodbye(0, 0)
    rig.announcements.begin(next_seq=1, last_seq=0, now_ns=0)
    assert GOODBYE not in [kind for _, kind in rig.run(10_000)]
