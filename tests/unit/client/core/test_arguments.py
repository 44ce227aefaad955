"""Invalid arguments of a space are rejected with a clear error and have no effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import skerry
from skerry import aio
from skerry.client.core.arguments import check_condition, check_count, check_group, check_text
from skerry.errors import ConfigError, LocalProtocolError
from tests.unit.client.stage import Stage, Vessel

HALF = "\ud800"
"""Half of a surrogate pair, which cannot be encoded."""


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: check_group(HALF), "is not a name of a type"),
        (lambda: check_group(""), "'' is not a name of a type"),
        (lambda: check_group("a\tb"), r"'a\\tb' is not a name of a type"),
        (lambda: check_group("x" * 11_000_000), "'xxx.* is not a name of a type"),
        (lambda: check_group(f"/{HALF}"), "a pattern cannot be encoded as UTF-8"),
        (lambda: check_group("/a/.../b"), "something follows after ..."),
        (lambda: check_text(5, "the secret"), "the secret must be a str, got int"),
        (lambda: check_text("å" * 6, "a name", 10), "a name has 12 bytes, the limit is 10"),
        (lambda: check_condition(5, None), "`where` must be a str, got int"),
        (lambda: check_condition(None, "lat"), "`fields` must be names of fields, got str"),
        (lambda: check_condition(None, 5), "`fields` must be names of fields, got int"),
        (
            lambda: check_condition(None, ["lat", None, b"x"]),
            "names of fields, got str, NoneType, bytes",
        ),
        (lambda: check_count(0, "a count"), "a count must be a whole number above 0, got 0"),
        (lambda: check_count(True, "a count"), "above 0, got True"),
        (lambda: check_count(1.0, "a count"), r"above 0, got 1\.0"),
    ],
)
def test_errors_have_a_hint(call: Callable[[], object], text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text) as caught:
        call()
    assert caught.value.hint


def test_valid_arguments_are_returned() -> None:
    assert check_group("Vessel") == "Vessel"
    assert check_group("ns::Foo") == "ns::Foo"
    assert check_group("/a/…") == "/a/..."
    assert check_text("\udcff", "a name", 1) == "\udcff"
    assert check_condition("lat > 1", iter(["lat", "mmsi"])) == ["lat", "mmsi"]
    assert check_condition(None, None) is None


@pytest.mark.parametrize("what", [HALF, f"/{HALF}", "x" * 11_000_000, "", 5, [], None])
def test_rejected_argument_is_not_sent_on_the_next_connection(what: Any) -> None:
    stage = Stage()
    space = stage.space()
    for ask in (
        lambda: space.subscribe(what, print, stage.now_ns),
        lambda: space.preload(what, stage.now_ns),
    ):
        with pytest.raises(LocalProtocolError):
            ask()
    stage.cut(space)
    stage.run(10)
    assert space.connection.state == "connected"


@pytest.mark.parametrize("name", [None, 5, b"x", HALF, "x" * 11_000_000])
def test_types_are_still_learned_after_a_wrong_name(name: Any) -> None:
    stage = Stage()
    space = stage.space()
    with pytest.raises(LocalProtocolError, match="the name of a type"):
        space.request_types([name], stage.now_ns)
    request = space.request_types(["Vessel"], stage.now_ns)
    stage.run()
    assert request.is_done


def test_containers_reject_with_the_same_errors(node: str) -> None:
    async def talk() -> None:
        async with await aio.connect(node) as space:
            nothing: Any
            for nothing, text in (({"where": 5}, "a str, got int"), ({"fields": [b""]}, "bytes")):
                with pytest.raises(LocalProtocolError, match=text):
                    await space.container(Vessel, **nothing)
            for nothing in ({}, 5, None):
                with pytest.raises(LocalProtocolError, match="is not a class of a type"):
                    await space.container(nothing)
            assert len(await space.container(Vessel)) == 0

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"name": 5}, "the name of a client must be a str, got int"),
        ({"name": HALF}, "the name of a client cannot be encoded as UTF-8"),
        ({"secret": 5}, "the secret must be a str, got int"),
        ({"queue_count_max": 0}, "queue_count_max must be a whole number above 0, got 0"),
        ({"send_bytes_max": -1}, "send_bytes_max must be a whole number above 0, got -1"),
        ({"preload": [HALF]}, "is not a name of a type"),
        ({"preload": [[]]}, "is not a class of a type"),
    ],
)
def test_invalid_options_are_rejected_before_connecting(node: str, options: Any, text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text):
        skerry.connect(node, wait=True, **options)


@pytest.mark.parametrize(
    ("place", "text"),
    [(5, "it must be a str, got int"), (f"tcp://{HALF}", "surrogates not allowed")],
)
def test_invalid_endpoint_is_rejected_before_connecting(place: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        skerry.connect(place, wait=True)
