"""Commands at a foreign host: they work, or report what is missing, and end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skerry
from tests.dots_host import DotsHost, dots_host

Run = Callable[..., Any]


@pytest.fixture
def host(clean_place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DotsHost]:
    with dots_host() as found:
        monkeypatch.setenv("SKERRY_ENDPOINT", found.place)
        yield found


def lines(done: Any) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


@pytest.mark.slow
def test_types_are_listed_without_counts(run: Run, host: DotsHost) -> None:
    rows = {row["name"]: row for row in lines(run("types", "list", "--json"))}
    assert {"GoldenAll", "GoldenColor", "GoldenUncached"} <= set(rows)
    assert rows["GoldenUncached"]["flags"] == ["cached=false"]
    assert rows["GoldenAll"]["objects"] is None
    assert "GoldenSingleton" in run("types", "list").out


def test_top_shows_the_clients(run: Run, host: DotsHost) -> None:
    (snapshot,) = lines(run("top", "--json", "--count", "1"))
    assert snapshot["node"] == "dotsd"
    assert snapshot["unexplained"] is None
    assert snapshot["types"] == []
    (client,) = snapshot["clients"]
    assert (client["name"], client["state"]) == ("skerry-top", "connected")
    assert "node dotsd, connected" in run("top", "--count", "1").out


@pytest.mark.slow
def test_objects_are_shown(run: Run, host: DotsHost) -> None:
    (golden,) = lines(run("get", "GoldenAll", "--json"))
    assert (golden["id"], golden["name"]) == (2, "second")
    assert lines(run("get", "GoldenAll", "--where", "id = 3", "--json")) == []
    assert lines(run("get", "GoldenCleanup", "--json")) == []
    assert {row["name"] for row in lines(run("get", "DotsClient", "--json"))} == {"skerry-get"}


def test_a_type_that_the_host_does_not_have_has_no_objects(run: Run, host: DotsHost) -> None:
    # The host does not answer such a join.
    assert lines(run("get", "DotsClientStatistics", "--json")) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("get", "Nothing"), "the node does not know a struct Nothing"),
        (("get", "GoldenUncached"), "GoldenUncached is not cached"),
        (("get", "SkerryPicture"), "SkerryPicture is a type of skerry nodes, and dotsd is not one"),
        (("sub", "SkerryLedger"), "SkerryLedger is a type of skerry nodes"),
        (("sub", "/prices/*"), "the node dotsd supports only types and not subjects"),
        (
            ("pub", "--subject", "/x", "--data", "y"),
            "the node dotsd supports only types and not subjects",
        ),
        (("picture",), "the node dotsd does not support pictures"),
    ],
)
def test_types_of_skerry_nodes_are_rejected_for_a_dots_host(
    run: Run, host: DotsHost, arguments: tuple[str, ...], words: str
) -> None:
    done = run(*arguments)
    assert done.code == 1
    assert words in done.err


@pytest.mark.slow
def test_published_objects_reach_subscribers(run: Run, host: DotsHost) -> None:
    with skerry.connect(host.place, name="follower") as space:
        space.request_types("GoldenSingleton")
        received: list[Any] = []
        is_there = threading.Event()

        def note(event: Any) -> None:
            received.append(event.object.value)
            if event.object.value == "new":
                is_there.set()

        space.subscribe("GoldenSingleton", note)
        done = run("pub", "GoldenSingleton", "value=new", "--json")
        assert lines(done) == [{"type": "GoldenSingleton", "published": 1, "removed": 0}]
        assert is_there.wait(10)
    assert received == ["v", "new"]
    (shown,) = lines(run("sub", "GoldenAll", "--count", "1", "--json"))
    assert shown["_operation"] == "create"
    (shown,) = lines(run("sub", "GoldenAll", "--where", "id > 1", "--count", "1", "--json"))
    assert shown["name"] == "second"


@pytest.mark.slow
def test_all_that_crosses_the_host_is_recorded(run: Run, host: DotsHost) -> None:
    done = run("record", "--to", "rec", "--types", "GoldenAll", "--count", "1", "--metrics", "off")
    assert done.code == 0, done.err
    done = run("record", "info", "rec", "--json")
    assert done.code == 0, done.err
    assert "GoldenAll" in done.out


def test_doctor_finds_the_host(run: Run, host: DotsHost) -> None:
    done = run("doctor", "--node", host.place, "--json")
    (row,) = [r for r in map(json.loads, done.out.splitlines()) if r["check"] == "node"]
    assert row["verdict"] == "ok"
    assert "dotsd" in row["facts"]
    # No additions of skerry are sent to a foreign host.
    assert not [name for name in host.heard if name.startswith("Skerry")]


def test_a_container_of_a_type_that_the_host_does_not_cache_is_complete(host: DotsHost) -> None:
    types = skerry.define_types("struct GoldenUncached { 1: [key] string msg; }")
    with skerry.connect(host.place, name="other", types=types) as space:
        # The host keeps the definition that it had first, by which nothing is cached.
        assert len(space.container(types.GoldenUncached)) == 0
        assert len(space.container("GoldenAll")) == 1
