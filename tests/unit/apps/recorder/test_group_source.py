"""A multicast group as a source: senders, losses and selected subjects."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import Any

import pytest

from skerry.apps.recorder.group_rows import DATAGRAM_SPAN
from skerry.apps.recorder.group_source import GroupOptions, GroupSource
from skerry.apps.recorder.row_queue import RowQueue
from skerry.client.distributor import aio
from skerry.codec.envelope import GAP
from skerry.objects.internal import internal_class
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    Delivered,
    Direction,
    LossReason,
    SenderInfo,
    UpdatesLost,
)
from skerry.protocol.distributor.receiving.link_quality import sender_number
from skerry.protocol.distributor.receiving.updates import Updates
from skerry.recording.format import to_record_batch
from skerry.recording.gaps import gap_of
from skerry.recording.rows import Columns
from skerry.runtime.recordings.resume_point import ResumePoint

SENDER = SenderInfo(address="10.0.0.1", sender_id=7, start=5, application_id=9)


class Stage:
    def __init__(self, **options: Any) -> None:
        self.queue = RowQueue(space="local", row_count_max=1000)
        self.messages: list[str] = []
        self.source = GroupSource(
            self.queue,
            GroupOptions(group="239.255.77.33:4711", **options),
            space="local",
            report=self.messages.append,
        )

    def rows(self) -> list[dict[str, Any]]:
        return list(to_record_batch(self.queue.rows.take()).to_pylist())


def delivered(*subjects: str, numbers: list[tuple[int, int]]) -> Delivered:
    return Delivered(
        sender=SENDER, batch=Updates((subject, b"x") for subject in subjects), numbers=numbers
    )


def test_updates_are_counted_by_their_datagrams() -> None:
    stage = Stage()
    stage.source.on_event(delivered("/a", "/b", "/c", numbers=[(0, 4), (2, 5)]))
    rows = stage.rows()
    span = DATAGRAM_SPAN
    assert [row["sequence"] for row in rows] == [4 * span, 4 * span + 1, 5 * span]
    assert {row["sender"] for row in rows} == {sender_number(SENDER)}
    assert stage.source.received_count == 3


def test_a_number_from_before_the_first_is_that_of_the_wire() -> None:
    stage = Stage()
    stage.source.on_event(delivered("/a", numbers=[(0, -1)]))
    assert stage.rows()[0]["sequence"] == 0xFFFFFFFF * DATAGRAM_SPAN


def test_skipped_updates_do_not_change_the_numbers_of_others() -> None:
    stage = Stage(subjects=("/b", "/c/..."))
    stage.source.on_event(delivered("/a", "/b", "/a", "/c/1", "/a", numbers=[(0, 4), (3, 5)]))
    rows = [(row["subject"], row["sequence"]) for row in stage.rows()]
    assert rows == [("/b", 4 * DATAGRAM_SPAN + 1), ("/c/1", 5 * DATAGRAM_SPAN)]


def test_a_loss_is_a_gap_of_its_sender() -> None:
    stage = Stage()
    stage.source.on_event(
        UpdatesLost(sender=SENDER, first_seq=10, stop_seq=12, reason=LossReason.RETRIES)
    )
    (row,) = stage.rows()
    gap = gap_of(row["payload"])
    assert (row["operation"], row["sender"]) == (GAP, sender_number(SENDER))
    assert (gap.first, gap.stop) == (10 * DATAGRAM_SPAN, 12 * DATAGRAM_SPAN)
    assert gap.reason == "2 datagrams were lost: retries"


def test_only_problems_are_reported() -> None:
    stage = Stage()
    stage.source.on_event(
        CommunicationFailed(group="g", port=1, direction=Direction.RECEIVE, reason="no net")
    )
    assert "no net" in stage.messages[0]


def test_invalid_descriptions_are_counted() -> None:
    stage = Stage(kind="objects")
    stage.source._described("StructDescriptorData", b"\xa0", 5)
    assert stage.source.intake.unreadable_count == 1


@pytest.mark.slow
def test_senders_are_remembered_up_to_a_bound() -> None:
    stage = Stage()
    numbers = {stage.source._sender(replace(SENDER, start=start)) for start in range(5000)}
    assert len(numbers) == 5000
    assert len(stage.source._senders) <= 4096
    assert stage.source._sender(replace(SENDER, start=0)) in numbers


def free_group() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return f"239.255.77.33:{probe.getsockname()[1]}"


def test_a_real_group_is_heard() -> None:
    group = free_group()
    queue = RowQueue(space="local", row_count_max=1000)
    options = GroupOptions(group=group, interface="127.0.0.1")
    ending = ResumePoint(node=0, position=0, time_ns=1000)
    source = GroupSource(queue, options, space="local", report=lambda _text: None, ending=ending)

    async def listen() -> None:
        all_heard = asyncio.Event()
        received = source.on_event

        def hear(event: Any) -> None:
            received(event)
            if source.received_count == 20:
                all_heard.set()

        source.on_event = hear  # type: ignore[method-assign]
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
    first, *rows, link = to_record_batch(queue.rows.take()).to_pylist()
    assert link["type"] == "SkerryLink"
    away = gap_of(first["payload"])
    assert (away.count, away.first_ns, away.reason) == (0, 1000, "the recorder was not running")
    assert len(rows) == 20
    assert len({row["sequence"] for row in rows}) == 20


async def record_with_loss(options: GroupOptions, *, permille: int) -> Columns:
    """All rows of a group whose sender loses datagrams on purpose, when it has repaired it all."""
    queue = RowQueue(space="local", row_count_max=10_000)
    source = GroupSource(queue, options, space="local", report=lambda _text: None)
    await source.start()
    async with await aio.open(
        options.group,
        interface="127.0.0.1",
        application="x",
        heartbeat_interval_ms=100,
        fake_send_loss_permille=permille,
    ) as connection:
        with connection.publisher() as publisher:
            for number in range(100):
                publisher.publish("/n", b"%d" % number)
                publisher.flush()
            async with asyncio.timeout(30):
                while source.received_count < 100:  # noqa: ASYNC110  the other side of a socket
                    await asyncio.sleep(0.005)
    await source.stop()
    return queue.rows.take()


@pytest.mark.slow
def test_retransmissions_are_a_row_of_the_link() -> None:
    options = GroupOptions(group=free_group(), interface="127.0.0.1")
    rows = to_record_batch(asyncio.run(record_with_loss(options, permille=300))).to_pylist()
    links = [row for row in rows if row["type"] == "SkerryLink"]
    reported: list[Any] = [internal_class("SkerryLink").decode(row["payload"]) for row in links]
    senders = {row["sender"] for row in rows}
    assert {(row["sender"], row["node"], row["source"]) for row in links} == {
        (number, number, "internal") for number in senders
    }
    assert {item.senderNumber for item in reported} == senders
    assert sum(item.datagrams for item in reported) == 100
    assert sum(item.retransmissions for item in reported) > 0
    assert sum(item.requests for item in reported) > 0
    assert sum(item.lost for item in reported) == 0
    assert all(item.roundTripTime > 0 for item in reported if item.roundTrips)
    assert any(item.roundTrips for item in reported)


@pytest.mark.parametrize(
    ("types", "subjects", "is_snapshot"),
    [
        ((), (), True),
        (("A",), (), False),
        ((), ("/a",), False),
        (("A", "SkerryLink"), (), True),
    ],
)
def test_links_are_recorded_with_all_types_or_if_named(
    types: tuple[str, ...], subjects: tuple[str, ...], is_snapshot: bool
) -> None:
    options = GroupOptions(group="239.255.77.33:4711", types=types, subjects=subjects)
    assert options.has_links is is_snapshot
