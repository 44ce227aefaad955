"""Updates that are played to a real node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import skerry
from skerry.apps.recorder.node_source import NodeOptions
from skerry.apps.replayer.node_target import NodeTarget
from skerry.client.core.states import SpaceState, StateChanged
from skerry.codec.envelope import REMOVE, SNAPSHOT, UPDATE
from skerry.errors import ConnectFailed, Disconnected
from skerry.objects.internal import internal_class
from tests.unit.apps.playing import TYPES, data, play, update, vessel


def node_target(
    place: str, messages: list[str] | None = None, *, is_looping: bool = False
) -> NodeTarget:
    received: list[str] = [] if messages is None else messages
    return NodeTarget(NodeOptions(endpoint=place), report=received.append, is_looping=is_looping)


def test_a_node_gets_objects_with_their_times_and_subjects(live_node: Any) -> None:
    target = node_target(live_node.place)
    with skerry.connect(live_node.place, types=TYPES) as space:
        bytes_heard: list[Any] = []
        space.subscribe("/prices/*", bytes_heard.append)
        vessels = space.container(TYPES.Vessel)
        play(
            target,
            update(vessel(1, name="a", speed=1, kind=TYPES.Kind.tug), SNAPSHOT),
            update(vessel(1, speed=2), UPDATE),
            update(vessel(2, name="b")),
            update(vessel(2), REMOVE),
            update(vessel(3), subject="/odd/3"),
            data(b"12", "/prices/A"),
        )
        space.flush()
        assert dict(vessels) == {
            1: vessel(1, name="a", speed=2, kind=TYPES.Kind.tug),
            3: vessel(3),
        }
        assert vessels.info(1).modified == 1_700_000_000.25
        assert [(event.subject, event.data) for event in bytes_heard] == [("/prices/A", b"12")]
        odd: list[str] = []
        space.subscribe("/odd/*", lambda event: odd.append(event.subject))
        space.flush()
        assert odd == ["/odd/3"]
    assert not target.left_out


def test_a_snapshot_is_the_whole_object(live_node: Any) -> None:
    with skerry.connect(live_node.place, types=TYPES) as space:
        space.publish(vessel(1, name="from before"))
        space.flush()
        play(node_target(live_node.place), update(vessel(1, speed=9), SNAPSHOT))
        assert dict(space.container(TYPES.Vessel)) == {1: vessel(1, speed=9)}


def test_a_new_round_removes_the_objects_of_the_last_one(live_node: Any) -> None:
    with skerry.connect(live_node.place, types=TYPES) as space:
        play(
            node_target(live_node.place, is_looping=True),
            update(vessel(1, name="a")),
            update(vessel(2), subject="/odd/2"),
            None,
            update(vessel(3)),
        )
        assert set(space.container(TYPES.Vessel)) == {3}


def test_unplayable_updates_are_left_out_and_counted(live_node: Any) -> None:
    messages: list[str] = []
    other = skerry.define_types("struct Vessel { 1: [key] string name; }")
    target = node_target(live_node.place, messages)
    with skerry.connect(live_node.place, types=other) as space:
        space.publish(other.Vessel(name="x"))
        space.flush()
        play(
            target,
            update(vessel(1)),
            update(vessel(2)),
            update(internal_class("DotsClient")(id=1), subject="/DotsClient/1"),
            update(vessel(1)).replace(fingerprint=1),
            update(vessel(1)).replace(fingerprint=1, type_name="StructDescriptorData"),
        )
    assert target.left_out == {
        "the node has a conflicting definition of Vessel": 2,
        "only a node publishes this type": 2,
        "its type is not described": 1,
    }
    assert len(messages) == 1


@pytest.mark.slow
def test_more_than_may_wait_is_waited_for(live_node: Any) -> None:
    content = bytes(1_000_000)
    received: list[int] = []
    with skerry.connect(live_node.place) as space:
        space.subscribe("/big", lambda event: received.append(len(event.data)))
        space.flush()
        play(node_target(live_node.place), *(data(content, "/big") for _ in range(8)))
        space.flush()
    assert received == [1_000_000] * 8


def test_without_a_node_it_cannot_begin() -> None:
    with pytest.raises(ConnectFailed):
        play(node_target("tcp://127.0.0.1:1"))


def test_a_node_that_ended_it_is_an_error(live_node: Any) -> None:
    target = node_target(live_node.place)

    async def run() -> None:
        await target.open()
        session = target._session
        assert session is not None
        session.core.close(0, reason="enough")
        session.write_output()
        with pytest.raises(Disconnected, match="enough"):
            await target.play(update(vessel(1)), TYPES.Vessel.descriptor)
        await target.close()

    asyncio.run(run())


def test_payload_that_does_not_decode_is_left_out(live_node: Any) -> None:
    target = node_target(live_node.place)
    play(target, update(vessel(1)).replace(payload=b"\xff"), update(vessel(2)))
    assert target.left_out == {"its payload does not decode as Vessel": 1}


def test_objects_are_remembered_only_for_another_round(live_node: Any) -> None:
    for is_looping in (False, True):
        target = node_target(live_node.place, is_looping=is_looping)
        play(target, update(vessel(1)))
        assert len(target._there) == is_looping


def test_close_without_waiting_reports_a_disconnected_node(live_node: Any) -> None:
    messages: list[str] = []
    target = node_target(live_node.place, messages)

    async def run() -> None:
        await target.open()
        target._state_changed(
            StateChanged(state=SpaceState.DISCONNECTED, reason="broken", unconfirmed_count=3)
        )
        assert "3 updates may be lost" in messages[0]
        with pytest.raises(Disconnected, match="may lack some") as caught:
            await target.close(waits=False)
        assert caught.value.hint

    asyncio.run(run())
