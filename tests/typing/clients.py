"""Clients: what comes out of a space has the types of what was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_type

import skerry
from skerry import aio
from tests.typing.fleet import Alarm, Vessel


def blocking() -> None:
    with skerry.connect("tcp://127.0.0.1", name="c", preload=[Vessel, "/Alarm/..."]) as space:
        assert_type(space, skerry.Space)
        space.publish(Vessel(mmsi=1), only={"name"}, subject="/nav/1")
        space.publish("/prices/X", b"98")
        space.remove(Vessel(mmsi=1))
        assert_type(space.container(Vessel)[1], Vessel)
        assert_type(space.container(Vessel, where="mmsi > 5").info(1), skerry.ObjectInfo)
        assert_type(space.container("Vessel")[1], Any)
        assert_type(space.container(Vessel).events, skerry.Subscription[Vessel])
        container: skerry.Container[Vessel] = space.container(Vessel)
        for event in space.subscribe(Vessel):
            assert_type(event, skerry.Event[Vessel])
            assert_type(event.object, Vessel)
            assert_type(event.update.mmsi, int)
            assert_type(event.update.name, str | None)
            assert_type(event.operation, skerry.Operation)
            if event.operation == "create" or event.operation is skerry.Operation.REMOVE:
                print(event.object)
            assert_type(event.data, bytes)
        for vessel in container.values():
            assert_type(vessel, Vessel)
        assert_type(space.subscribe("/Vessel/*"), skerry.Subscription[Any])
        assert_type(space.state, skerry.SpaceState)
        assert_type(space.types, Mapping[str, Any])
        space.subscribe(Alarm, heard, on_slow="conflate").close()
        space.on_state(changed)
        space.on_refused(lambda refusal: print(refusal.what))
        space.flush(timeout=1.0)
        assert_type(space.serve(Alarm, lambda alarm: alarm, name="a"), skerry.Service)
        assert_type(space.own(Vessel, keys=[1, (2,)], standby=True), skerry.Ownership)
        assert_type(space.request(Alarm(), to="a", timeout=2.0), Any)
        assert_type(space.request(Alarm(), answer=Vessel, timeout=2.0), Vessel)
        assert_type(container.to_dict(), dict[Any, dict[str, Any]])
        assert_type(space.picture, skerry.Picture)
        assert_type(space.picture.nodes, tuple[skerry.PictureNode, ...])


def heard(event: skerry.Event[Alarm]) -> None:
    assert_type(event.object.level, int | None)


def changed(change: skerry.StateChanged) -> None:
    assert_type(change.unconfirmed_count, int)


async def with_a_loop() -> None:
    async with aio.connect() as connected:
        assert_type(connected, aio.Space)
    async with await aio.connect() as space:
        assert_type(space, aio.Space)
        vessels: aio.Container[Vessel] = await space.container(Vessel)
        assert_type(vessels[1], Vessel)
        async for event in space.subscribe(Vessel, fields=["name"]):
            assert_type(event.object, Vessel)
        await space.flush()
        assert_type(await space.request(Alarm(), answer=Vessel), Vessel)
        assert_type(await space.request(Alarm()), Any)
