"""Handles of claims on a real node: services and ownership of objects."""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, assert_type

import pytest

import skerry
from skerry import aio
from skerry.client.api.service_handles import ClaimHandle
from skerry.client.core.claims import ClaimState
from skerry.engine.admission.admission import Admission, AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.node import NodeCore
from skerry.errors import Disconnected, LocalProtocolError, Refused, RequestTimedOut
from skerry.runtime.clock import monotonic_ns, wall_ns
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.streams.node_server import NodeServer
from tests.unit.client.conftest import RunningNode
from tests.unit.client.stage import Ask, Say, Shout, Vessel

Changes = queue.SimpleQueue[str]


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


def say(text: str) -> Any:
    return lambda _: Say(text=text)


def noted(changes: Changes) -> Any:
    return lambda holding: changes.put(str(holding.state))


def test_service_reports_its_state(node: str) -> None:
    changes: Changes = queue.SimpleQueue()
    with skerry.connect(node) as first, skerry.connect(node) as second:
        service = first.serve(Ask, say("first"), name="router", on_change=noted(changes))
        assert_type(service, skerry.Service)
        assert (service.state, service.is_held, service.reason) == ("held", True, "")
        assert (service.type_name, service.name) == ("Ask", "router")
        assert repr(service) == "<held: requests Ask as router>"
        taken = second.serve(Ask, say("second"), name="router")
        assert [changes.get(timeout=30) for _ in range(2)] == ["held", "lost"]
        assert not service.is_held
        assert "claimed by client" in service.reason
        assert first.request(Ask(), to="router").text == "second"
        again = first.serve(Ask, say("again"), name="router")
        assert again.is_held
        assert first.request(Ask(), to="router").text == "again"
        taken.close()
        service.close()
        assert service.state is ClaimState.CLOSED


def test_standby_serves_when_the_holder_has_left(node: str) -> None:
    changes: Changes = queue.SimpleQueue()
    with skerry.connect(node) as waiting:
        holder = skerry.connect(node)
        holder.serve(Ask, say("holder"), standby=True)
        standby = waiting.serve(Ask, say("standby"), standby=True, on_change=noted(changes))
        assert standby.state == "standby"
        assert waiting.request(Ask()).text == "holder"
        holder.close()
        assert [changes.get(timeout=30) for _ in range(2)] == ["standby", "held"]
        assert waiting.request(Ask()).text == "standby"


def test_claims_are_restored_with_the_connection(running_node: RunningNode) -> None:
    changes: Changes = queue.SimpleQueue()
    with skerry.connect(running_node.place) as space:
        service = space.serve(Ask, say("here"), on_change=noted(changes))
        owned = space.own(Vessel, [1, 2])
        running_node.stop()
        assert [changes.get(timeout=30) for _ in range(2)] == ["held", "asked"]
        assert (str(owned.state), set(owned.held)) == ("asked", set())
        running_node.start()
        assert changes.get(timeout=30) == "held"
        space.flush()
        assert service.is_held
        assert owned.held == {1, 2}
        assert space.request(Ask()).text == "here"


def test_service_that_was_closed_meanwhile_is_not_claimed_again(running_node: RunningNode) -> None:
    gone, back = threading.Event(), threading.Event()
    with skerry.connect(running_node.place) as space:
        service = space.serve(Ask, say("here"))
        space.on_state(lambda c: (gone if c.state == "disconnected" else back).set())
        running_node.stop()
        assert gone.wait(30)
        service.close()
        running_node.start()
        assert back.wait(30)
        with pytest.raises(skerry.NotRegistered):
            space.request(Ask())


def test_only_the_owner_changes_objects(node: str) -> None:
    with skerry.connect(node) as owner, skerry.connect(node) as other:
        with owner.own(Vessel, keys=[1, Vessel(mmsi=2)]) as owned:
            assert_type(owned, skerry.Ownership)
            assert owned.held == {1, 2}
            assert owned.is_held
            assert repr(owned) == "<held: 2 objects of Vessel>"
            owner.publish(Vessel(mmsi=1, name="ours"))
            owner.flush()
            other.publish(Vessel(mmsi=1, name="theirs"))
            with pytest.raises(Refused, match="owned by client"):
                other.flush()
            other.remove(Vessel(mmsi=1))
            with pytest.raises(Refused, match="owned by client"):
                other.flush()
            other.publish(Vessel(mmsi=3))
            other.flush()
        owner.flush()
        other.publish(Vessel(mmsi=1, name="theirs"))
        other.flush()
        assert other.container(Vessel)[1].name == "theirs"
        assert owned.held == frozenset()


def test_all_objects_of_a_type_can_be_owned(node: str) -> None:
    with skerry.connect(node) as owner, skerry.connect(node) as other:
        everything = owner.own(Vessel)
        assert repr(everything) == "<held: all objects of Vessel>"
        assert everything.is_held
        assert everything.held == frozenset(), "there are no keys to tell"
        other.publish(Vessel(mmsi=1))
        with pytest.raises(Refused, match="owned by client"):
            other.flush()
        one = other.own(Vessel, [1])
        assert one.is_held, "the claim of one goes before that of all"
        other.publish(Vessel(mmsi=1))
        other.flush()


def test_ownership_has_the_worst_state_of_its_claims(node: str) -> None:
    with skerry.connect(node) as first, skerry.connect(node) as second:
        owned = first.own(Vessel, [1, 2])
        waiting = second.own(Vessel, [2, 3], standby=True)
        assert (str(waiting.state), set(waiting.held)) == ("standby", {3})
        assert not waiting.is_held
        third = second.own(Vessel, [1])
        first.flush()
        assert (str(owned.state), set(owned.held)) == ("lost", {2})
        assert "claimed by client" in owned.reason
        owned.close()
        first.flush()
        second.flush()
        assert waiting.held == {2, 3}
        assert third.held == {1}


def test_states_are_in_order_from_worst_to_best() -> None:
    assert [str(state) for state in ClaimState] == [
        "closed",
        "refused",
        "lost",
        "asked",
        "standby",
        "held",
    ]


def test_invalid_arguments_are_rejected_before_anything_is_claimed(node: str) -> None:
    with skerry.connect(node) as space:
        faulty: Any = space
        for wrong in (5, "Ask", skerry.Struct):
            for attempt in (lambda w: faulty.serve(w, print), faulty.own):
                with pytest.raises(LocalProtocolError, match="is not a class of a type"):
                    attempt(wrong)
        with pytest.raises(LocalProtocolError, match="a callback must be a function"):
            faulty.serve(Ask, say("x"), on_change=5)
        with pytest.raises(LocalProtocolError, match="not cached"):
            space.own(Shout)
        service = space.serve(Ask, say("x"))
        with pytest.raises(LocalProtocolError, match="already claimed requests Ask"):
            space.serve(Ask, say("y"))
        space.own(Vessel, [1])
        with pytest.raises(LocalProtocolError, match="already claimed Vessel 1"):
            space.own(Vessel, [2, 1])
        service.close()
        assert space.serve(Ask, say("y")).is_held
        assert len(space._core.connection.claims) == 2


def test_error_of_a_change_callback_affects_nothing_else(
    node: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: ClaimHandle) -> None:
        raise ValueError("oops")

    with skerry.connect(node) as space:
        assert space.serve(Ask, say("x"), on_change=fail).is_held
        assert space.request(Ask()).text == "x"
    assert {record.getMessage() for record in caplog.records} == {"a callback failed"}


def test_end_of_the_space_closes_its_claims(node: str) -> None:
    changes: Changes = queue.SimpleQueue()
    space = skerry.connect(node)
    service = space.serve(Ask, say("x"), on_change=noted(changes))
    space.close()
    assert [changes.get(timeout=30) for _ in range(2)] == ["held", "closed"]
    assert service.state == "closed"
    service.close()
    for attempt in (lambda: space.serve(Ask, say("x")), lambda: space.own(Vessel)):
        with pytest.raises(Disconnected, match="the space is closed"):
            attempt()


def test_callback_may_close_but_not_wait_for_a_claim(node: str) -> None:
    outcome: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with skerry.connect(node) as space:
        service = space.serve(Ask, say("x"))

        def close(_: Any) -> None:
            service.close()
            try:
                space.serve(Ask, say("y"))
            except LocalProtocolError as error:
                outcome.put(str(error))

        space.subscribe(Shout, close)
        space.publish(Shout(text="now"))
        assert "cannot wait" in outcome.get(timeout=30)
        with pytest.raises(skerry.NotRegistered):
            space.request(Ask())


def test_services_do_not_keep_a_space_without_references(node: str) -> None:
    space = skerry.connect(node)
    service = space.serve(Ask, say("x"), on_change=print)
    space.own(Vessel, [1])
    thread = space._thread
    with pytest.warns(ResourceWarning, match="a space was not closed"):  # noqa: PT031
        del space
        gc.collect()
    thread._thread.join(30)
    assert service.state == "closed"


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_claims_do_not_work_in_a_forked_process(node: str) -> None:
    with skerry.connect(node) as space:
        service = space.serve(Ask, say("x"))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                service.close()
                space.request(Ask())
            except Disconnected as error:
                status = 0 if "forked" in str(error) else 2
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert service.is_held
        assert space.request(Ask()).text == "x"


# -- the asyncio space


@asynccontextmanager
async def started(
    rules: tuple[PermissionRule, ...] = (), place: str = "tcp://127.0.0.1:0"
) -> AsyncIterator[str]:
    admission = Admission(AdmissionConfig(permission=rules))
    core = NodeCore(wall_offset_ns=wall_ns() - monotonic_ns(), admission=admission)
    server = NodeServer(core)
    try:
        yield await server.listen(parse_endpoint(place))
    finally:
        await server.close()


def test_asyncio_space_behaves_in_the_same_way(node: str) -> None:
    async def talk() -> None:
        changes: list[str] = []
        async with await aio.connect(node) as first, await aio.connect(node) as second:
            holder = await first.serve(Ask, say("first"), standby=True)
            standby = await second.serve(
                Ask, say("second"), standby=True, on_change=lambda s: changes.append(str(s.state))
            )
            assert_type(standby, skerry.Service)
            assert (holder.state, standby.state) == ("held", "standby")
            with await first.own(Vessel, [1]) as owned:
                assert_type(owned, skerry.Ownership)
                assert owned.held == {1}
                second.publish(Vessel(mmsi=1))
                with pytest.raises(Refused, match="owned by client"):
                    await second.flush()
            holder.close()
            await first.flush()
            assert (await second.request(Ask())).text == "second"
            assert changes == ["standby", "held"]

    run(talk())


def test_refused_claim_is_forgotten() -> None:
    async def talk() -> None:
        rules = (
            PermissionRule(verbs=("publish",), subjects=("/Vessel/1", "/Vessel/2")),
            PermissionRule(verbs=("remove",), subjects=("/Vessel/1",)),
            PermissionRule(verbs=("all",), allow=False),
        )
        async with started(rules) as place, await aio.connect(place) as space:
            with pytest.raises(Refused, match="refused the claim /Vessel/2: not permitted"):
                await space.own(Vessel, [1, 2])
            with pytest.raises(Refused, match=r"refused the claim /Vessel/2.*, and 1 more"):
                await space.own(Vessel, [1, 2, 3])
            with pytest.raises(Refused, match=r"refused the claim .*Ask"):
                await space.serve(Ask, say("x"), name="router")
            with pytest.raises(Refused, match="the node refused the request Ask to router"):
                await space.request(Ask(), to="router")
            assert len(space._core.connection.claims) == 0
            assert (await space.own(Vessel, [1])).is_held

    run(talk())


def test_node_that_does_not_answer_leaves_no_claim(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as space:
            space._core.connection.pause()
            with pytest.raises(RequestTimedOut, match="the claim of requests Ask"):
                await space.serve(Ask, say("x"), timeout=0.05)
            space._core.connection.resume()
            assert len(space._core.connection.claims) == 0
            assert (await space.serve(Ask, say("x"))).is_held

    run(talk())


def test_closing_space_fails_a_waiting_claim(node: str) -> None:
    async def talk() -> None:
        space = await aio.connect(node)
        space._core.connection.pause()
        claiming = asyncio.create_task(space.serve(Ask, say("x")))
        await asyncio.sleep(0)
        await space.close()
        with pytest.raises(Disconnected, match="the space is closed"):
            await claiming

    run(talk())


def test_callback_may_release_a_claim_that_is_being_made(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as space:
            service = await space.serve(Ask, say("x"), on_change=skerry.Service.close)
            assert service.state == "closed"
            assert len(space._core.connection.claims) == 0

    run(talk())


def test_websocket_supports_claims_and_requests() -> None:
    async def talk() -> None:
        async with started(place="ws://127.0.0.1:0") as place, await aio.connect(place) as space:
            await space.serve(Ask, lambda asked: Say(text=asked.text + "!", count=3))
            assert await space.request(Ask(text="ä")) == Say(text="ä!", count=3)
            assert (await space.own(Vessel, [7])).held == {7}

    run(talk())


def test_old_framing_does_not_support_claims() -> None:
    async def talk() -> None:
        async with started(place="tcp-v1://127.0.0.1:0") as door, await aio.connect(door) as space:
            for attempt in (
                space.request(Ask()),
                space.serve(Ask, say("x")),
                space.own(Vessel, [1]),
            ):
                with pytest.raises(LocalProtocolError, match="does not support"):
                    await attempt
            with pytest.raises(LocalProtocolError, match="does not support pictures"):
                _ = space.picture

    run(talk())
