"""Updates that are played to a real group."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from skerry import distributor
from skerry.apps.recorder.group_source import GroupOptions
from skerry.apps.replayer.group_target import GroupTarget
from skerry.codec.envelope import REMOVE, Update
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import read_header
from tests.unit.apps.playing import data, play, update, vessel


def free_group() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return f"239.255.77.35:{probe.getsockname()[1]}"


def heard_in(group: str, target: GroupTarget, count: int, *updates: Update) -> list[Any]:
    received: list[tuple[str, bytes]] = []
    is_done = threading.Event()

    def note(batch: list[tuple[str, bytes]]) -> None:
        received.extend(batch)
        if len(received) >= count:
            is_done.set()

    with distributor.open(group, interface="127.0.0.1") as connection:
        connection.subscriber(on_batch=note).add("/...")
        play(target, *updates)
        assert is_done.wait(30)
    return received


def group_target(group: str, **options: Any) -> GroupTarget:
    found = GroupOptions(group=group, interface="127.0.0.1", **options)
    return GroupTarget(found, report=lambda _text: None)


@pytest.mark.slow
def test_a_group_of_bytes_gets_bytes() -> None:
    group = free_group()
    target = group_target(group)
    broken = data(b"", "/c").replace(payload=b"\xa1\x01\x01")
    received = heard_in(
        group,
        target,
        2,
        data(b"1", "/a"),
        update(vessel(1)),
        broken,
        data(b"2", "/å"),
        data(b"2", "/b"),
    )
    assert received == [("/a", b"1"), ("/b", b"2")]
    assert target.left_out == {
        "an object, in a group of bytes": 1,
        "its payload is not bytes": 1,
        "the group cannot transmit it": 1,
    }


@pytest.mark.slow
def test_a_group_of_objects_gets_them_with_their_types_first() -> None:
    group = free_group()
    target = group_target(group, kind="objects")
    received = heard_in(
        group,
        target,
        4,
        update(vessel(1, name="a")),
        update(vessel(1), REMOVE, sent_ns=-1),
        update(internal_class("DotsClient")(id=1)),
        update(vessel(1)).replace(fingerprint=1),
    )
    names = [read_header(content, 0)[0].type_name for _, content in received]
    assert names == ["EnumDescriptorData", "StructDescriptorData", "Vessel", "Vessel"]
    first, at = read_header(received[2][1], 0)
    assert received[2][1][at:] == vessel(1, name="a").encode()
    assert first.sent_time == 1_700_000_000.25
    assert read_header(received[3][1], 0)[0].remove_obj == 1
    assert target.left_out.total() == 2
