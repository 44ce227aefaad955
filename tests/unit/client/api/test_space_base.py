"""Both kinds of spaces have the same names and the same operations that do not wait."""

from __future__ import annotations

import asyncio
from inspect import signature
from time import time
from types import SimpleNamespace
from typing import Any

import pytest

import skerry
from skerry import build_info
from skerry.client.api import aio, sync
from skerry.client.api.space_base import SpaceBase
from skerry.client.core.send_buffer import SendBuffer, SendPlan
from skerry.errors import LocalProtocolError
from skerry.objects.base import codec_of
from skerry.protocol.access.header import read_header
from tests.unit.client.stage import Shout, Vessel


def public_names(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def test_twins_have_the_same_names() -> None:
    assert public_names(aio.AsyncSpace) == public_names(sync.Space)
    # Only the blocking form needs a way to wait with a timeout: asyncio has `asyncio.timeout`.
    assert public_names(aio.AsyncSubscription) | {"get"} == public_names(sync.Subscription)
    assert signature(aio.connect).parameters == signature(sync.connect).parameters


async def never(_event: object) -> None:
    """A coroutine function, which cannot be a callback."""


def use(space: SpaceBase) -> None:
    """Use the operations that do not wait."""
    for callback in (space.on_state, space.on_refused):
        callback(print)
    assert str(space.state) == "connected"
    assert space.client_id > 0
    assert space.node_name
    assert 0 <= space.silence_s < 60
    with pytest.raises(LocalProtocolError, match="without its key mmsi"):
        space.publish(Vessel(name="a"))
    with pytest.raises(LocalProtocolError, match="no bytes to publish under /a"):
        faulty: Any = space
        faulty.publish("/a")
    for _ in range(2):
        # The second time there is a shorter way.
        with pytest.raises(LocalProtocolError, match="bytes have one subject, not /a and /b"):
            faulty.publish("/a", b"x", subject="/b")
        with pytest.raises(LocalProtocolError, match="`only` names fields, and the bytes of /a"):
            faulty.publish("/a", b"x", only=["name"])
        with pytest.raises(LocalProtocolError, match="bytes are published under a subject"):
            faulty.publish(Vessel(mmsi=1), b"x")
        faulty.publish("/a", b"x")
    for listen in (space.on_state, space.on_refused, lambda c: faulty.subscribe(Vessel, c)):
        with pytest.raises(LocalProtocolError, match="cannot be `async`") as caught:
            listen(never)
        assert caught.value.hint is not None
        with pytest.raises(LocalProtocolError, match="a callback must be a function, not int"):
            listen(5)  # type: ignore[arg-type]
    for where in (5, b"lat > 1"):
        with pytest.raises(LocalProtocolError, match=r"`where` must be a str, got (int|bytes)"):
            faulty.subscribe(Vessel, where=where)
    for fields in (5, "lat", b"lat"):
        with pytest.raises(
            LocalProtocolError, match=r"`fields` must be names of fields, got (int|str|bytes)"
        ):
            faulty.subscribe(Vessel, fields=fields)
    with pytest.raises(LocalProtocolError, match="Shout is not cached"):
        space.remove(Shout())
    space.publish(Vessel(mmsi=1))
    space.publish(Vessel(mmsi=2), subject="/fleet/2")
    space.remove(Vessel(mmsi=1))
    assert space.types["Vessel"] is Vessel


def test_both_kinds_share_operations_that_do_not_wait(node: str) -> None:
    async def use_on_loop() -> None:
        async with await aio.connect(node) as space:
            use(space)
            await space.flush()
            assert list(await space.container(Vessel)) == [2]

    asyncio.run(use_on_loop())
    with sync.connect(node) as space:
        use(space)
        space.flush()
        assert list(space.container(Vessel)) == [2]


def test_other_definitions_of_the_node_are_known(node: str) -> None:
    other = skerry.define_types("struct Vessel { 1: [key] string mmsi; }").Vessel
    with sync.connect(node) as first, sync.connect(node, types=[Vessel]) as second:
        first.publish(other(mmsi="x"))
        first.flush()
        before = second.conflicts
        second.request_types("Vessel")
        (conflict,) = second.conflicts
        assert before == ()
        assert conflict.known is Vessel.descriptor
        assert conflict.offered == other.descriptor


@pytest.mark.skipif(build_info.mode() != "compiled", reason="the uncompiled build has no fast path")
def test_published_objects_wait_in_the_buffer_with_the_time_of_day() -> None:
    buffer, woken = SendBuffer(10_000, None), []
    buffer.waiting.is_short = True
    buffer.waiting.templates[Vessel] = SendPlan(codec_of(Vessel), True).template
    session: Any = SimpleNamespace(core=SimpleNamespace(buffer=buffer), connection=None)

    class Publisher(SpaceBase):
        def _write_soon(self) -> None:
            woken.append(1)

    publisher = Publisher(session)
    before = time()
    publisher.publish(Vessel(mmsi=1))
    publisher.publish(Vessel(mmsi=2))
    header, _ = read_header(buffer.waiting.frames.take(), 5)
    assert before <= header.sent_time <= time()
    assert woken == [1], "the loop is woken once"
    assert buffer.waiting.added_count == 2
