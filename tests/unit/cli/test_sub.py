"""`skerry sub`, on a real node."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.cli.following import check_flow

Run = Callable[..., Any]


def untimed(out: str) -> list[str]:
    """The lines without their times, which are of today."""
    assert all(re.match(r"\d\d:\d\d:\d\d\.\d\d\d ", line) for line in out.splitlines())
    return [line[13:] for line in out.splitlines()]


@contextmanager
def publishing(node: Any, types: Path) -> Iterator[tuple[Any, Any]]:
    known = skerry.load_types(types)
    with skerry.connect(node.place, types=known) as space:
        yield space, known


@contextmanager
def when_joined(space: Any, group: str, act: Callable[[], object]) -> Iterator[None]:
    """Does something as soon as another client has joined a group."""

    def note(event: Any) -> None:
        if not acted.is_set() and group in (event.object.subscribedTypes or ()):
            acted.set()
            act()

    acted = threading.Event()
    with space.subscribe("DotsClient", note):
        yield
    assert acted.is_set()


def test_existing_objects_are_printed_first(run: Run, node: Any, types: Path) -> None:
    with publishing(node, types) as (space, known):
        space.publish(known.Vessel(mmsi=1, name="Maren", lat=53.0))
        space.flush()
        done = run("sub", "Vessel", "--count", "1", "--json")
        row = json.loads(done.out)
        assert row.pop("_age_s") >= 0
        assert row.pop("_time") > 1.7e9
        assert row == {
            "mmsi": 1,
            "name": "Maren",
            "lat": 53.0,
            "_operation": "create",
            "_type": "Vessel",
            "_key": 1,
            "_subject": "/Vessel/1",
            "_sender": space.client_id,
        }
        text = run("sub", "Vessel", "--count", "1").out
        assert untimed(text) == ['create Vessel{ .mmsi = 1u, .name = "Maren", .lat = 53.0 }']


def test_condition_and_fields_choose(run: Run, node: Any, types: Path) -> None:
    with publishing(node, types) as (space, known):
        space.publish(known.Vessel(mmsi=1, name="A", lat=1.0))
        space.publish(known.Vessel(mmsi=2, name="B", lat=60.0))
        space.flush()
        arguments = ("--where", "lat > 50", "--fields", "lat, kind", "--count", "1", "--json")
        row = json.loads(run("sub", "Vessel", *arguments, "--types", types).out)
    assert {k: v for k, v in row.items() if not k.startswith("_")} == {"mmsi": 2, "lat": 60.0}


@pytest.mark.slow
def test_new_omits_existing_objects(run: Run, node: Any, types: Path) -> None:
    with publishing(node, types) as (space, known):
        space.publish(known.Vessel(mmsi=1))
        space.flush()
        later = known.Vessel(mmsi=2)
        with when_joined(space, "Vessel", lambda: space.publish(later)):
            done = run("sub", "Vessel", "--new", "--count", "1", "--json")
    assert json.loads(done.out)["mmsi"] == 2


@pytest.mark.slow
def test_unpublished_type_is_awaited(run: Run, node: Any, types: Path) -> None:
    with publishing(node, types) as (space, known):
        first = known.Vessel(mmsi=7)
        with when_joined(space, "Vessel", lambda: space.publish(first)):
            done = run("sub", "Vessel", "--count", "1", "--json")
    assert json.loads(done.out)["mmsi"] == 7
    assert "the node does not know Vessel yet" in done.err


@pytest.mark.slow
def test_wildcard_subjects_omit_status_objects(run: Run, node: Any, types: Path) -> None:
    def act() -> None:
        space.publish("/prices/X", b"92.14")
        space.publish("/prices/Y", b"\xff")
        space.publish(known.Hail(text="ahoy"))

    with publishing(node, types) as (space, known), when_joined(space, "/...", act):
        done = run("sub", "/...", "--count", "3")
    assert untimed(done.out) == [
        "/prices/X 92.14",
        "/prices/Y ff",
        'create Hail{ .text = "ahoy" }',
    ]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_it_orderly(run: Run, node: Any, types: Path, number: signal.Signals) -> None:
    with publishing(node, types) as (space, known):
        space.publish(known.Vessel(mmsi=1))
        space.flush()
        with when_joined(space, "Vessel", lambda: os.kill(os.getpid(), number)):
            done = run("sub", "Vessel")
    assert done.code == 0
    assert untimed(done.out) == ["create Vessel{ .mmsi = 1u }"]


@pytest.mark.slow
def test_lost_connection_is_restored_and_reported(run: Run, node: Any, types: Path) -> None:
    known = skerry.load_types(types)

    def restart() -> None:
        node.stop()
        node.start()
        with skerry.connect(node.place, types=known) as space:
            space.publish(known.Vessel(mmsi=9))
            space.flush()

    thread = threading.Thread(target=restart)
    with publishing(node, types) as (space, _), when_joined(space, "Vessel", thread.start):
        done = run("sub", "Vessel", "--count", "1", "--types", types, "--json")
        thread.join()
    assert json.loads(done.out)["mmsi"] == 9
    assert "connection lost" in done.err
    assert "reconnected" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("/Vessel/*", "--where", "lat > 1"), 2, "need a type"),
        (("Vessel", "--on-slow", "wait"), 2, "'wait' is not one of"),
        (("Nothing", "--where", "lat > 1"), 1, "the node does not know a struct Nothing"),
        (("/" + "a" * 2000,), 2, "characters"),
        (("/a/.../b",), 2, "'TYPE|SUBJECT': /a/.../b cannot be used as a pattern"),
        (("DotsClient", "--where", "id >"), 2, "'--where': expected a value, found the end (at 5)"),
        (("DotsClient", "--where", "idd > 1"), 2, "'--where': DotsClient has no field idd (at 1)"),
        (("DotsClient", "--where", "name > 1"), 2, "'--where': "),
        (("DotsClient", "--fields", "idd"), 2, "'--fields': DotsClient has no field idd"),
        (("DotsClient", "--fields", "qqqqq"), 2, "its fields are id, name"),
        (("DotsClient", "--fields", ""), 2, "'--fields': a field name is empty in ''"),
        (("...",), 2, "a subject begins with /"),
    ],
)
def test_usage_errors_are_reported(
    run: Run, node: Any, arguments: tuple[str, ...], code: int, complaint: str
) -> None:
    done = run("sub", *arguments)
    assert done.code == code
    assert complaint in done.err


def test_space_that_is_closed_for_good_is_an_error() -> None:
    class Over:
        state = "closed"

        def wait_closed(self) -> str:
            return "the node rejects the client"

    over: Any = Over()
    with pytest.raises(skerry.SkerryError, match="rejects the client"):
        check_flow(over, [])


def test_a_format_replaces_the_line(run: Run, node: Any, types: Path) -> None:
    with publishing(node, types) as (space, known):
        space.publish(known.Vessel(mmsi=1, name="Maren", lat=53.0))
        space.publish("/prices/X", b"92.14")
        space.flush()
        shape = "{_operation} {_key:06} {name} {kind}|{lat:.2f}"
        assert (
            run("sub", "Vessel", "-c", "1", "--format", shape).out == "create 000001 Maren |53.00\n"
        )
        done = run("sub", "Vessel", "-c", "1", "-f", "{nam}")
        assert (done.code, done.out) == (2, "")
        assert "'--format': there is no value nam" in done.err
        assert "did you mean name?" in done.err
        assert run("sub", "Vessel", "-j", "-f", "{mmsi}").code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        ("/Vessel/**", "/Vessel/..."),
        ("/Vessel/#", "/Vessel/..."),
        ("/Vessel/>", "/Vessel/..."),
        ("/+/7", "/*/7"),
        ("/Vessel/24*", "/Vessel/*"),
    ],
)
def test_wild_cards_of_other_systems_are_answered_at_once(
    run: Run, node: Any, types: Path, pattern: str, meant: str
) -> None:
    with (
        publishing(node, types) as (space, _),
        when_joined(space, pattern, lambda: space.publish(pattern, b"literal")),
    ):
        done = run("sub", pattern, "-c", "1")
    assert "literal" in done.out, "such a level is an ordinary one"
    assert f"did you mean '{meant}'?" in done.err


@pytest.mark.slow
def test_a_misspelled_type_has_a_suggestion_at_once(run: Run, node: Any, types: Path) -> None:
    def act() -> None:
        space.publish(other.Vesel(mmsi=2))

    other = skerry.define_types("struct Vesel { 1: [key] uint32 mmsi; }")
    with publishing(node, types) as (space, known):
        space.publish(known.Vessel(mmsi=1))
        space.flush()
        with when_joined(space, "Vesel", act):
            done = run("sub", "Vesel", "-c", "1")
    assert "warning: the node does not know Vesel yet (did you mean Vessel?)" in done.err
