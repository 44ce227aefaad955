"""Conditions that are evaluated here; that they agree with the node's is tested with the space."""

from __future__ import annotations

from typing import Any

from skerry.client.core.events import Event
from skerry.client.core.local_filters import LocalFilter, header_like, replay_header
from skerry.client.core.received_types import ReceivedType
from skerry.client.core.type_route import Target, TypeRoute
from skerry.client.core.update_intake import UpdateIntake
from skerry.codec.hot_loops import ObjectState
from skerry.codec.operation import Operation
from skerry.engine.delivery.query import compile_filter
from skerry.objects.base import codec_of, key_of
from skerry.protocol.access.header import Header
from skerry.protocol.access.where.filters import make_filter
from tests.unit.client.stage import Vessel

SHAPE = ReceivedType(Vessel, codec_of(Vessel).plan, True)


def entry_of(obj: Any) -> ObjectState:
    return ObjectState(
        obj.encode(), int(obj.attributes), "", 1.0, 2, 1.0, 2, Operation.CREATE, 1.0, 1
    )


def new_view(where: str) -> tuple[LocalFilter, list[Event[Any]]]:
    intake, route = UpdateIntake(), TypeRoute(SHAPE, False)
    events: list[Event[Any]] = []
    route.is_joined = route.is_condition = True
    route.targets = [Target(events.append, None)]
    query = compile_filter(make_filter(Vessel.descriptor, where, None), Vessel.descriptor)
    return LocalFilter(query, route, intake), events


def test_stored_object_is_delivered_once() -> None:
    view, events = new_view("lat > 1")
    obj = Vessel(mmsi=1, lat=2.0)
    entry = entry_of(obj)
    for _ in range(2):
        view.offer(key_of(obj), entry, replay_header("Vessel", entry, 0))
    view.offer(key_of(Vessel(mmsi=2)), entry_of(Vessel(mmsi=2, lat=0.0)), Header("Vessel"))
    assert [(event.operation, event.object.mmsi) for event in events] == [("create", 1)]
    assert events[0].is_from_cache


def test_header_for_other_fields_keeps_the_rest() -> None:
    header = Header("Vessel")
    header.sent_time, header.sender, header.subject = 1.0, 7, "/nav"
    made = header_like(header, 6)
    assert (made.sent_time, int(made.sender), made.subject) == (1.0, 7, "/nav")
    assert int(made.attributes) == 6
