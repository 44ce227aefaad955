"""The routes of types, and which of them compute default subjects for patterns."""

from __future__ import annotations

from skerry.client.core.known_types import KnownTypes
from skerry.client.core.route_table import DIRECT, SERVICES, RouteTable
from skerry.client.core.type_route import Target
from skerry.client.core.update_intake import UpdateIntake
from tests.unit.client.stage import Shout, Vessel


def table() -> tuple[RouteTable, UpdateIntake]:
    intake, types = UpdateIntake(), KnownTypes()
    for cls in (Vessel, Shout):
        types.learn(cls)
    return RouteTable(intake, types), intake


def test_direct_answers_are_processed_by_the_space() -> None:
    assert DIRECT < SERVICES


def test_type_without_subscription_has_no_route() -> None:
    routes, _ = table()
    assert routes.of_name("Vessel") is None


def test_first_pattern_gives_each_type_a_route() -> None:
    routes, intake = table()
    routes.count_pattern("/Vessel/*", 1)
    handle = routes.add_target("/Vessel/*", Target(print, None))
    selected = {name for name, route in intake.routes.items() if route.has_patterns}
    assert selected == {"Vessel"}
    assert "Shout" in intake.routes
    assert intake.pattern_count == 1
    routes.remove_target(handle)
    routes.count_pattern("/Vessel/*", -1)
    assert intake.pattern_count == 0
    assert not any(route.has_patterns for route in intake.routes.values())


def test_pattern_counts_until_it_is_left_as_often_as_it_was_subscribed() -> None:
    routes, intake = table()
    for change in (1, 1, -1):
        routes.count_pattern("/Vessel/*", change)
    routes.add_target("/Vessel/*", Target(print, None))
    assert intake.routes["Vessel"].has_patterns
    routes.count_pattern("/Vessel/*", -1)
    assert not intake.routes["Vessel"].has_patterns


def test_objects_of_a_narrowed_type_are_examined() -> None:
    routes, intake = table()
    routes.add_target("/Vessel/*", Target(print, None))
    routes.narrowed("Vessel")
    assert intake.routes["Vessel"].is_service
