"""The asyncio space, on a real node."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import trustme

import skerry
import skerry.aio
from skerry import aio
from skerry.client.core.events import Event
from skerry.client.core.states import StateChanged
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.node import NodeCore
from skerry.errors import (
    ConnectFailed,
    Disconnected,
    LocalProtocolError,
    Refused,
    RequestTimedOut,
    SlowConsumer,
    WouldBlock,
)
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer
from tests.unit.client.stage import TYPES, Only, Shout, Vessel


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


async def start_node(place: str = "tcp://127.0.0.1:0") -> tuple[NodeServer, str]:
    server = NodeServer(NodeCore(wall_offset_ns=wall_ns() - monotonic_ns()))
    return server, await server.listen(parse_endpoint(place))


async def until(space: aio.Space, state: str) -> None:
    """Wait for a state without polling."""
    reached = asyncio.Event()

    def look(change: StateChanged) -> None:
        if change.state == state:
            reached.set()

    space.on_state(look)
    if space.state != state:
        await reached.wait()


def test_published_object_reaches_another_program(node: str) -> None:
    async def talk() -> None:
        seen: list[str] = []
        async with (
            await aio.connect(node, name="a") as first,
            await aio.connect(node, name="b", preload=[Vessel]) as second,
        ):
            second.subscribe(Vessel, lambda event: seen.append(event.operation))
            first.publish(Vessel(mmsi=1, name="x"))
            first.publish(Vessel(mmsi=1, name="y"), subject="/nav/1")
            first.remove(Vessel(mmsi=1))
            await first.flush()
            await second.flush()
            assert len(await second.container(Vessel)) == 0
            assert first.client_id != second.client_id
            assert first.node_name == "skerry"
        assert seen == ["create", "update", "remove"]

    run(talk())


def test_iteration_returns_current_objects_and_later_updates(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node, types=TYPES) as space:
            space.publish(Vessel(mmsi=1))
            await space.flush()
            with space.subscribe(Vessel) as subscription:
                operations = []
                async for event in subscription:
                    operations.append((event.operation, event.object.mmsi))
                    if len(operations) == 1:
                        space.publish(Vessel(mmsi=2))
                    else:
                        break
            assert operations == [("create", 1), ("create", 2)]
            assert [event async for event in subscription] == []
            with pytest.raises(LocalProtocolError, match="with a callback"):
                async for _ in space.subscribe(Vessel, print):
                    pass
            with pytest.raises(LocalProtocolError, match="on_slow is"):
                space.subscribe(Vessel, on_slow="never")  # type: ignore[arg-type]

    run(talk())


def test_iteration_ends_with_the_space(node: str) -> None:
    async def talk() -> None:
        space = await aio.connect(node)
        subscription = space.subscribe(Shout)

        async def collect() -> list[Event[Any]]:
            return [event async for event in subscription]

        task = asyncio.create_task(collect())
        await space.flush()
        await space.close()
        assert await task == []

    run(talk())


def test_slow_iteration_raises_slow_consumer(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node, queue_count_max=3) as space:
            subscription = space.subscribe(Shout)
            for number in range(5):
                space.publish(Shout(text=str(number)))
            await space.flush()
            taken = []
            with pytest.raises(SlowConsumer):
                async for event in subscription:
                    taken.append(event.object.text)  # noqa: PERF401  it ends by an error
            assert taken == ["0", "1", "2"]

    run(talk())


def test_abandoned_iteration_leaves_no_subscription(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as space:
            space.publish(Vessel(mmsi=1))
            for _ in range(3):
                async for event in space.subscribe(Vessel):
                    assert event.object.mmsi == 1
                    break
                await space.flush()
                assert space._core.intake.routes["Vessel"].targets == []
                assert not space._session.wakers

    run(talk())


def test_space_belongs_to_one_loop(node: str) -> None:
    async def misuse(space: Any) -> None:
        for use in (
            space.flush,
            space.drain,
            space.request_types,
            space.wait_closed,
            space.close,
            lambda: space.container(Vessel),
            lambda: space.request(Shout()),
            lambda: space.serve(Shout, print),
            lambda: space.own(Vessel),
            lambda: space.picture.wait(1.0),
        ):
            with pytest.raises(LocalProtocolError, match="belongs to another loop") as caught:
                await use()
            assert caught.value.hint is not None
        for act in (space.publish, space.subscribe):
            with pytest.raises(LocalProtocolError, match="belongs to another loop"):
                act(Vessel(mmsi=1) if act == space.publish else Vessel)

    async def talk() -> None:
        async with await aio.connect(node) as space:
            await asyncio.to_thread(lambda: run(misuse(space)))
            space.publish(Vessel(mmsi=1))
            await space.flush()

    run(talk())


def test_container_is_live(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as space:
            vessels = await space.container(Vessel)
            near = await space.container(Vessel, where="lat < 1", fields=["lat"])
            events = vessels.events
            assert vessels.events is events
            space.publish(Vessel(mmsi=1, name="a", lat=0.5))
            space.publish(Vessel(mmsi=2, name="b", lat=9.5))
            await space.flush()
            assert sorted(vessels) == [1, 2]
            assert dict(near) == {1: Vessel(mmsi=1, lat=0.5)}
            event = await anext(aiter(events))
            assert (event.operation, event.object.mmsi) == ("create", 1)
            vessels.close()
            near.close()

    run(talk())


def test_types_of_other_programs_can_be_used_by_name(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as first, await aio.connect(node) as second:
            first.publish(Only(text="x"))
            await first.flush()
            assert second.types == {}
            only = await second.container("Only")
            assert only[()].text == "x"
            assert set(await second.request_types()) == {"Only"}
            with pytest.raises(LocalProtocolError, match="Nothing is not a known type"):
                await second.container("Nothing")

    run(talk())


def test_connection_is_restored_after_a_restart_of_the_node() -> None:
    async def talk() -> None:
        server, place = await start_node()
        async with await aio.connect(place) as space:
            events: list[tuple[str, int]] = []
            space.subscribe(Vessel, lambda e: events.append((e.operation, e.object.mmsi)))
            space.publish(Vessel(mmsi=1))
            await space.flush()
            await server.close()
            await until(space, "disconnected")
            space.publish(Vessel(mmsi=2))
            server, _ = await start_node(place)
            try:
                await space.flush(timeout=20)
                assert space.state == "connected"
                assert events[0] == ("create", 1)
                assert set(events[1:]) == {("remove", 1), ("create", 2)}
            finally:
                await space.close()
                await server.close()

    run(talk())


def test_publishing_above_the_limit_is_rejected_until_there_is_room() -> None:
    async def talk() -> None:
        server, place = await start_node()
        async with await aio.connect(place, send_bytes_max=10_000) as space:
            published = 0
            with pytest.raises(WouldBlock):
                while True:
                    space.publish(Only(text="x" * 100))
                    published += 1
            assert 50 < published < 100
            await space.drain(timeout=10)
            space.publish(Only(text="last"))
            await space.flush()
            assert (await space.container(Only))[()].text == "last"
        await server.close()

    run(talk())


def test_failing_callbacks_are_logged(node: str, caplog: pytest.LogCaptureFixture) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as space:

            def fail(_: object) -> None:
                raise ValueError("oops")

            space.subscribe(Shout, fail)
            space.on_state(fail)
            space.publish(Shout(text="a"))
            await space.flush()
            await space.flush()

    with caplog.at_level(logging.ERROR):
        run(talk())
    assert [record.getMessage() for record in caplog.records] == ["a callback failed"] * 2
    assert "ValueError: oops" in caplog.text


def test_silent_node_times_out() -> None:
    async def talk() -> None:
        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            with pytest.raises(ConnectFailed, match=r"no answer within 0\.05 s"):
                await aio.connect(f"tcp://127.0.0.1:{port}", timeout=0.05)
        finally:
            server.close()
            await server.wait_closed()

    run(talk())


def test_waiting_for_the_first_connection() -> None:
    async def talk() -> None:
        server, place = await start_node()
        await server.close()
        connecting = asyncio.create_task(aio.connect(place, wait=True))
        server, _ = await start_node(place)
        async with await connecting as space:
            assert space.state == "connected"
        await server.close()

    run(talk())


def test_flush_timeout_names_the_time() -> None:
    async def talk() -> None:
        server, place = await start_node()
        async with await aio.connect(place) as space:
            await server.close()
            await until(space, "disconnected")
            with pytest.raises(RequestTimedOut, match=r"after 0\.01 s"):
                await space.flush(timeout=0.01)

    run(talk())


def test_closed_space_raises_disconnected(node: str) -> None:
    async def talk() -> None:
        space = await aio.connect(node)
        waiting = asyncio.create_task(space.wait_closed())
        await space.close()
        assert await waiting == "the space is closed"
        with pytest.raises(Disconnected, match="the space is closed"):
            space.publish(Shout(text="too late"))

    run(talk())


def test_space_that_was_not_closed_is_warned_about(node: str) -> None:
    async def talk() -> None:
        space = await aio.connect(node)
        session = space._session
        with pytest.warns(ResourceWarning, match="a space was not closed"):  # noqa: PT031
            del space
            gc.collect()
        await session.close()

    run(talk())


@pytest.mark.parametrize("scheme", ["tcp-v1", "uds", "ws"])
def test_other_transports_reach_the_node(scheme: str, tmp_path: Path) -> None:
    async def talk() -> None:
        text = f"uds:{tmp_path}/n.sock" if scheme == "uds" else f"{scheme}://127.0.0.1:0"
        server, place = await start_node(text)
        try:
            async with await aio.connect(place, types=TYPES) as space:
                vessels = await space.container(Vessel)
                for number in range(10):
                    space.publish(Vessel(mmsi=number, name="a"))
                await space.flush()
                assert sorted(vessels) == list(range(10))
        finally:
            await server.close()

    run(talk())


def test_preload_is_complete_when_connected(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as first:
            first.publish(Vessel(mmsi=1))
            first.publish(Only(text="x"))
            await first.flush()
            async with await aio.connect(node, preload=[Vessel, "/Only/...", "/Only"]) as second:
                seen: list[Any] = []
                second.subscribe(Vessel, lambda event: seen.append(event.object))
                second.subscribe("/Only", lambda event: seen.append(event.object.text))
                assert seen == [Vessel(mmsi=1), "x"]

    run(talk())


def test_tls_with_certificates_of_both_ends(tmp_path: Path) -> None:
    authority = trustme.CA()
    ca, own, ann = (tmp_path / name for name in ("ca.pem", "node.pem", "ann.pem"))
    authority.cert_pem.write_to_path(ca)
    node_paper = authority.issue_cert("127.0.0.1", common_name="node")
    node_paper.private_key_and_cert_chain_pem.write_to_path(own)
    ann_paper = authority.issue_cert("ann@example.org", common_name="ann")
    ann_paper.private_key_and_cert_chain_pem.write_to_path(ann)

    async def talk() -> None:
        server, place = await start_node(f"tls://127.0.0.1:0?cert={own}&ca={ca}")
        try:
            async with await aio.connect(place, ca=ca, cert=ann) as space:
                await space.flush()
            async with await aio.connect(f"{place}?ca={ca}&cert={ann}") as space:
                await space.flush()
            with pytest.raises(ConnectFailed, match="certificate is not trusted"):
                await aio.connect(place)
            with pytest.raises(ConnectFailed):
                await aio.connect(place, ca=ca)
        finally:
            await server.close()

    run(talk())


def test_container_that_is_not_permitted_is_refused_at_once() -> None:
    rules = (
        PermissionRule(verbs=("subscribe",), subjects=("Only",)),
        PermissionRule(verbs=("publish",)),
    )

    async def talk() -> None:
        core = NodeCore(admission=Admission(AdmissionConfig(permission=rules)))
        server = NodeServer(core)
        place = await server.listen(parse_endpoint("tcp://127.0.0.1:0"))
        async with await aio.connect(place, preload=[Vessel]) as space:
            for where in (None, "mmsi = 1", None):
                with pytest.raises(Refused, match="subscribe: Vessel: not permitted"):
                    await space.container(Vessel, where=where, timeout=None)
            assert dict(await space.container(Only, timeout=None)) == {}
        await server.close()

    run(talk())


def test_condition_above_the_limit_is_refused_and_does_not_take_the_next_answer() -> None:
    limits = ClientLimits(view_count_max=1)

    async def talk() -> None:
        server = NodeServer(NodeCore(admission=Admission(AdmissionConfig(limits=limits))))
        place = await server.listen(parse_endpoint("tcp://127.0.0.1:0"))
        async with await aio.connect(place) as space:
            first = await space.container(Vessel, where="mmsi = 1")
            with pytest.raises(Refused, match="1 filtered subscriptions already"):
                await space.container(Vessel, where="mmsi = 2", timeout=None)
            assert dict(await space.container(Vessel, timeout=None)) == dict(first) == {}
        await server.close()

    run(talk())


def test_node_without_tls_is_not_reported_as_missing_permission(node: str) -> None:
    async def talk() -> None:
        with pytest.raises(ConnectFailed, match=r"127\.0\.0\.1:\d+: TLS: [a-z ]+$"):
            await aio.connect(node.replace("tcp:", "tls:"))

    run(talk())


def test_connect_is_used_with_and_without_await(live_node: Any) -> None:
    async def main() -> None:
        async with skerry.aio.connect(live_node.place) as first:
            assert first.state == "connected"
        assert first.state == "closed"
        async with await skerry.aio.connect(live_node.place) as second:
            assert second.state == "connected"
        third = await asyncio.create_task(skerry.aio.connect(live_node.place))
        await third.close()
        fourth = await asyncio.wait_for(skerry.aio.connect(live_node.place), 10)
        await fourth.close()

    asyncio.run(main())


def test_a_space_that_was_not_awaited_says_so(live_node: Any) -> None:
    space: Any = skerry.aio.connect(live_node.place)
    with pytest.raises(AttributeError, match="not connected yet, so it has no publish"):
        space.publish(1)
    space.close()


def test_answers_have_the_class_that_the_caller_names(live_node: Any) -> None:
    text = "struct Ask [cached=false] { 1: int32 n; } struct Reply [cached=false] { 1: int32 n; }"
    types = skerry.define_types(text)

    @skerry.struct(cached=False)
    class Reply(skerry.Struct):
        n: skerry.int32 | None = skerry.field(1)

    async def main() -> None:
        async with (
            skerry.aio.connect(live_node.place) as server,
            skerry.aio.connect(live_node.place) as space,
        ):
            await server.serve(types.Ask, lambda ask: types.Reply(n=ask.n) if ask.n else None)
            reply = await space.request(types.Ask(n=7), answer=Reply)
            assert type(reply) is Reply
            assert reply.n == 7
            with pytest.raises(skerry.RequestError, match="returned no object, not a Reply"):
                await space.request(types.Ask(n=0), answer=Reply)
            with pytest.raises(skerry.RequestError, match="returned a Reply, not a Ask"):
                await space.request(types.Ask(n=1), answer=types.Ask)
            wrong: Any = int
            with pytest.raises(skerry.LocalProtocolError, match="not a class of a type"):
                await space.request(types.Ask(n=1), answer=wrong)

    asyncio.run(main())
