"""The route of a type: each change of it invalidates cached callbacks."""

from __future__ import annotations

from skerry.client.core.type_route import TypeRoute
from skerry.codec.hot_loops import RouteVersion
from tests.unit.client.core.test_update_intake import shape_of
from tests.unit.client.stage import Shout, Vessel


def test_only_the_route_of_a_cached_type_has_a_store() -> None:
    assert TypeRoute(shape_of(Vessel), False).store is not None
    assert TypeRoute(shape_of(Shout), False).store is None


def test_change_of_a_route_invalidates_cached_callbacks() -> None:
    route = TypeRoute(shape_of(Vessel), False)
    route.changed()
    route.gate = RouteVersion()
    route.changed()
    assert route.gate.number == 2


def test_type_that_becomes_cached_gets_a_store() -> None:
    shape = shape_of(Shout)
    route = TypeRoute(shape, False)
    shape.is_cached = True
    route.redefined()
    assert route.store is not None
