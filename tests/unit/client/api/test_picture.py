"""The picture of the system, live, as both kinds of space show it."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Coroutine
from typing import Any, assert_type

import pytest

import skerry
from skerry import aio
from skerry.client.api.picture import PictureNode
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.node import NodeCore
from skerry.errors import Disconnected, LocalProtocolError, Refused, RequestTimedOut
from skerry.objects.internal import internal_class
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer
from tests.unit.client.conftest import RunningNode
from tests.unit.client.stage import Shout


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def emit(core: NodeCore, server: NodeServer, **facts: Any) -> None:
    """Publish a picture at the node; by default with this node alone."""
    alone = {
        "id": id(core),
        "name": "skerry",
        "kind": "full",
        "endpoints": ["tcp://127.0.0.1:1"],
        "started": 1.5,
        "nodeType": "server",
        "control": "10.0.0.1:26660",
        "data": "10.0.0.1:26661",
    }
    nodes = [internal_class("SkerryNode")(**node) for node in facts.pop("nodes", [alone])]
    usual = {"system": "harbour", "sequence": 1, "digest": 5, "isDetached": False}
    usual |= {"elected": id(core), "election": 3, "node": id(core), "incarnation": 8}
    core.host.publisher.publish(
        internal_class("SkerryPicture")(nodes=nodes, **{**usual, **facts}), monotonic_ns()
    )
    server.carry()


def reported(node: RunningNode, **facts: Any) -> None:
    async def on_its_loop() -> None:
        assert node._server is not None
        emit(node.core, node._server, **facts)

    node.do(on_its_loop())


def test_first_access_waits_for_the_picture(running_node: RunningNode) -> None:
    reported(running_node)
    with skerry.connect(running_node.place) as space:
        picture = space.picture
        assert_type(picture, skerry.Picture)
        assert picture.is_known
        assert picture is space.picture
        assert (picture.system, picture.sequence, picture.is_detached) == ("harbour", 1, False)
        (node,) = picture.nodes
        assert_type(node, PictureNode)
        assert (node.name, node.kind, node.is_dead) == ("skerry", "full", False)
        assert node.endpoints == ("tcp://127.0.0.1:1",)
        assert (node.generation, node.started) == (0, 1.5)
        assert (node.node_type, node.reason) == ("server", "")
        assert (node.control, node.data) == ("10.0.0.1:26660", "10.0.0.1:26661")
        assert (picture.node, picture.incarnation) == (node.id, 8)
        assert (picture.elected, picture.election, picture.digest) == (node.id, 3, 5)
        assert repr(picture) == "<picture 1 of harbour: skerry>"


def test_picture_follows_changes_and_calls_back(running_node: RunningNode) -> None:
    reported(running_node)
    changes: queue.SimpleQueue[int] = queue.SimpleQueue()
    with skerry.connect(running_node.place) as space:
        picture = space.picture
        picture.on_change(lambda seen: changes.put(seen.sequence))
        reported(
            running_node,
            sequence=2,
            isDetached=True,
            digest=2**64 - 1,
            nodes=[
                {"id": -5, "name": "a"},
                {"id": 7, "isDead": True, "generation": 3, "reason": "silent"},
            ],
        )
        assert changes.get(timeout=30) == 2, "a picture that was known before is not a change"
        assert picture.is_detached
        assert picture.digest == 2**64 - 1
        assert [(node.id, node.generation) for node in picture.nodes] == [(-5, 0), (7, 3)]
        assert [node.reason for node in picture.nodes] == ["", "silent"]
        assert repr(picture) == "<picture 2 of harbour: a, 7 (dead)>"
    assert picture.sequence == 2, "the last received picture stays"


def test_many_threads_share_one_picture(running_node: RunningNode) -> None:
    reported(running_node)
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with skerry.connect(running_node.place) as space:
        threads = [threading.Thread(target=lambda: seen.put(space.picture)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {id(seen.get_nowait()) for _ in threads} == {id(space.picture)}
        groups = space._core.subscriptions._groups
        assert groups["SkerryPicture"].holder_count == 1


def test_callback_cannot_wait_for_the_picture_but_read_it(running_node: RunningNode) -> None:
    reported(running_node)
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with skerry.connect(running_node.place) as space:

        def look(_: object) -> None:
            try:
                seen.put(space.picture.system)
            except LocalProtocolError as error:
                seen.put(str(error))

        space.subscribe(Shout, look)
        space.publish(Shout(text="a"))
        assert "cannot wait" in seen.get(timeout=30)
        assert space.picture.is_known
        space.publish(Shout(text="b"))
        assert seen.get(timeout=30) == "harbour"


def test_picture_returns_with_the_node(running_node: RunningNode) -> None:
    reported(running_node)
    changes: queue.SimpleQueue[int] = queue.SimpleQueue()
    with skerry.connect(running_node.place) as space:
        first = space.picture.elected
        space.picture.on_change(lambda seen: changes.put(seen.elected))
        running_node.stop()
        running_node.start()
        reported(running_node)
        while changes.get(timeout=30) == first:
            pass
        assert space.picture.elected != first


def test_listener_must_be_a_callback(running_node: RunningNode) -> None:
    reported(running_node)
    with (
        skerry.connect(running_node.place) as space,
        pytest.raises(LocalProtocolError, match="a callback must be a function"),
    ):
        space.picture.on_change(5)  # type: ignore[arg-type]


def test_closed_space_reports_no_changes(running_node: RunningNode) -> None:
    reported(running_node)
    with skerry.connect(running_node.place) as space:
        picture = space.picture
    assert picture.system == "harbour"
    with pytest.raises(Disconnected, match="the space is closed"):
        picture.on_change(print)

    async def talk() -> None:
        async with await aio.connect(running_node.place) as space:
            picture = space.picture
            await picture.wait()
        with pytest.raises(Disconnected, match="the space is closed"):
            picture.on_change(print)

    run(talk())


def test_twin_is_empty_until_it_is_known(running_node: RunningNode) -> None:
    async def talk() -> None:
        await asyncio.to_thread(reported, running_node)
        async with await aio.connect(running_node.place) as space:
            space._core.connection.pause()
            picture = space.picture
            assert_type(picture, aio.Picture)
            assert picture is space.picture
            assert not picture.is_known
            assert (picture.system, picture.nodes, picture.elected) == ("", (), 0)
            assert (picture.election, picture.sequence, picture.digest) == (0, 0, 0)
            assert not picture.is_detached
            assert "not known" in repr(picture)
            with pytest.raises(RequestTimedOut, match="the picture of the system"):
                await picture.wait(0.01)
            changed = asyncio.Event()
            picture.on_change(lambda _: changed.set())
            space._core.connection.resume()
            space._session.write_output()
            await changed.wait()
            await picture.wait()
            assert picture.system == "harbour"
            running: set[str] = {node.name for node in space.picture.nodes}
            assert running == {"skerry"}

    run(talk())


def test_missing_permission_raises_refused() -> None:
    async def talk() -> None:
        rules = (PermissionRule(verbs=("subscribe",), subjects=("SkerryPicture",), allow=False),)
        core = NodeCore(
            admission=Admission(AdmissionConfig(permission=rules)),
            wall_offset_ns=wall_ns() - monotonic_ns(),
        )
        server = NodeServer(core)
        try:
            place = await server.listen(parse_endpoint("tcp://127.0.0.1:0"))
            emit(core, server)
            async with await aio.connect(place) as space:
                with pytest.raises(Refused, match="SkerryPicture: not permitted"):
                    await space.picture.wait()
                assert not space.picture.is_known
        finally:
            await server.close()

    run(talk())
