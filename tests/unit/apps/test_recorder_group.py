"""A multicast group as a source: senders, losses, and what was asked for."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import Any

import pytest

from skerry.apps.recorder_datagrams import DATAGRAM_SPAN
from skerry.apps.recorder_group import GroupSource, GroupWishes, sender_number
from skerry.apps.recorder_queue import RowQueue
from skerry.client.distributor import aio
from skerry.codec.envelope import GAP
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    Delivered,
    Direction,
    LossReason,
    SenderInfo,
    UpdatesLost,
)
from skerry.protocol.distributor.updates import Updates
from skerry.recording.format import to_record_batch
from skerry.recording.gaps import gap_of
from skerry.runtime.recordings.endings import Ending

SENDER = SenderInfo(address="10.0.0.1", sender_id=7, start=5, application_id=9)


class Stage:
    def __init__(self, **wishes: Any) -> None:
        self.queue = RowQueue(space="local", row_count_max=1000)
        self.said: list[str] = []
        self.source = GroupSource(
            self.queue,
            GroupWishes(group="239.255.77.33:4711", **wishes),
            space="local",
            tell=self.said.append,
        )

    def rows(self) -> list[dict[str, Any]]:
        return list(to_record_batch(self.queue.rows.take()).to_pylist())


def delivered(*subjects: str, numbers: list[tuple[int, int]]) -> Delivered:
    return Delivered(
        sender=SENDER, batch=Updates((subject, b"x") for subject in subjects), numbers=numbers
    )


def test_updates_are_counted_by_their_datagrams() -> None:
    stage = Stage()
    stage.source.heard(delivered("/a", "/b", "/c", numbers=[(0, 4), (2, 5)]))
    rows = stage.rows()
    span = DATAGRAM_SPAN
    assert [row["sequence"] for row in rows] == [4 * span, 4 * span + 1, 5 * span]
    assert {row["sender"] for row in rows} == {sender_number(SENDER)}
    assert stage.source.taken_count == 3


def test_a_number_from_before_the_first_is_that_of_the_wire() -> None:
    stage = Stage()
    stage.source.heard(delivered("/a", numbers=[(0, -1)]))
    assert stage.rows()[0]["sequence"] == 0xFFFFFFFF * DATAGRAM_SPAN


def test_what_is_left_out_does_not_change_how_the_rest_is_counted() -> None:
    stage = Stage(subjects=("/b", "/c/..."))
    stage.source.heard(delivered("/a", "/b", "/a", "/c/1", "/a", numbers=[(0, 4), (3, 5)]))
    rows = [(row["subject"], row["sequence"]) for row in stage.rows()]
    assert rows == [("/b", 4 * DATAGRAM_SPAN + 1), ("/c/1", 5 * DATAGRAM_SPAN)]


def test_a_sender_is_the_same_before_and_after_it_announced_itself() -> None:
    announced = replace(SENDER, start=(1 << 40) + 5, application="feed")
    assert sender_number(announced) == sender_number(SENDER)
    assert sender_number(replace(SENDER, sender_id=8)) != sender_number(SENDER)


def test_a_loss_is_a_gap_of_its_sender() -> None:
    stage = Stage()
    stage.source.heard(
        UpdatesLost(sender=SENDER, first_seq=10, stop_seq=12, reason=LossReason.RETRIES)
    )
    (row,) = stage.rows()
    gap = gap_of(row["payload"])
    assert (row["operation"], row["sender"]) == (GAP, sender_number(SENDER))
    assert (gap.first, gap.stop) == (10 * DATAGRAM_SPAN, 12 * DATAGRAM_SPAN)
    assert gap.reason == "2 datagrams were lost: retries"


def test_trouble_is_told_and_other_events_are_not() -> None:
    stage = Stage()
    stage.source.heard(
        CommunicationFailed(group="g", port=1, direction=Direction.RECEIVE, reason="no net")
    )
    assert "no net" in stage.said[0]


def test_what_describes_nothing_is_counted() -> None:
    stage = Stage(kind="objects")
    stage.source._described("StructDescriptorData", b"\xa0")
    assert stage.source.intake.unreadable_count == 1


@pytest.mark.slow
def test_senders_are_remembered_up_to_a_bound() -> None:
    stage = Stage()
    numbers = {stage.source._sender(replace(SENDER, start=start)) for start in range(5000)}
    assert len(numbers) == 5000
    assert len(stage.source._senders) <= 4096
    assert stage.source._sender(replace(SENDER, start=0)) in numbers


def test_a_real_group_is_heard() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        group = f"239.255.77.33:{probe.getsockname()[1]}"
    queue = RowQueue(space="local", row_count_max=1000)
    wishes = GroupWishes(group=group, interface="127.0.0.1")
    ending = Ending(node=0, position=0, time_ns=1000)
    source = GroupSource(queue, wishes, space="local", tell=lambda _text: None, ending=ending)

    async def listen() -> None:
        all_heard = asyncio.Event()
        heard = source.heard

        def hear(event: Any) -> None:
            heard(event)
            if source.taken_count == 20:
                all_heard.set()

        source.heard = hear  # type: ignore[method-assign]
        states = [source.is_complete]
        await source.start()
        states.append(source.is_complete)
        assert states == [False, True]
        async with await aio.open(group, interface="127.0.0.1", application="x") as connection:
            with connection.publisher() as publisher:
                for number in range(20):
                    publisher.publish("/n", b"%d" % number)
                publisher.flush()
                async with asyncio.timeout(30):
                    await all_heard.wait()
        source.check()
        await source.stop()

    asyncio.run(listen())
    first, *rows = to_record_batch(queue.rows.take()).to_pylist()
    away = gap_of(first["payload"])
    assert (away.count, away.first_ns, away.reason) == (0, 1000, "the recorder was not running")
    assert len(rows) == 20
    assert len({row["sequence"] for row in rows}) == 20
