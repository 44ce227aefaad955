"""What programs that are new to skerry, or written by people used to another system, do wrong.

Each call fails at once with an error that says what to do, or warns before it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import skerry
from tests.unit.conftest import LiveNode

TYPES = skerry.define_types(
    "struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; }"
    " struct Hail [cached=false] { 1: string text; }"
)
Vessel, Hail = TYPES.Vessel, TYPES.Hail


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    live = LiveNode(f"uds:{tmp_path_factory.mktemp('node')}/n.sock")
    try:
        live.start()
        yield live
    finally:
        live.end()


@pytest.fixture(scope="module")
def space(harbour: LiveNode) -> Iterator[Any]:
    """A space, untyped: a type checker would find most of these mistakes."""
    with skerry.connect(harbour.place, types=TYPES) as opened:
        opened.publish(Vessel(mmsi=1, name="Maren"))
        opened.flush()
        yield opened


async def _handle(_request: object) -> None: ...


MISTAKES: list[tuple[str, Callable[[Any], object], type[Exception], str]] = [
    ("a field that does not exist", lambda _: Vessel(mmsi=1, nam="x"), TypeError, "nam"),
    (
        "a key that is missing",
        lambda s: s.publish(Vessel(name="x")),
        skerry.LocalProtocolError,
        "mmsi",
    ),
    ("a value of another type", lambda s: s.publish(Vessel(mmsi="1")), skerry.EncodeError, "mmsi"),
    ("a value out of range", lambda s: s.publish(Vessel(mmsi=-1)), skerry.EncodeError, "mmsi"),
    ("a dictionary", lambda s: s.publish({"mmsi": 1}), skerry.LocalProtocolError, "dict"),
    ("a class", lambda s: s.publish(Vessel), skerry.LocalProtocolError, "class"),
    ("a subject without bytes", lambda s: s.publish("/x"), skerry.LocalProtocolError, "no bytes"),
    ("text as bytes", lambda s: s.publish("/x", "text"), skerry.LocalProtocolError, "bytes"),
    ("a subject without slash", lambda s: s.publish("x", b""), skerry.LocalProtocolError, "/"),
    ("a wild card", lambda s: s.publish("/x/*", b""), skerry.LocalProtocolError, "wild card"),
    (
        "only of no field",
        lambda s: s.publish(Vessel(mmsi=1), only=["x"]),
        AttributeError,
        "no field",
    ),
    (
        "only as text",
        lambda s: s.publish(Vessel(mmsi=1), only="name"),
        TypeError,
        "names of fields",
    ),
    (
        "a pattern of NATS",
        lambda s: s.subscribe("prices.>"),
        skerry.LocalProtocolError,
        "not a name",
    ),
    ("a path", lambda s: s.subscribe("prices/*"), skerry.LocalProtocolError, "not a name"),
    ("the rest inside", lambda s: s.subscribe("/.../x"), skerry.LocalProtocolError, "..."),
    ("** of files", lambda s: s.subscribe("/Vessel/**"), UserWarning, "did you mean '/Vessel/...'"),
    ("# of MQTT", lambda s: s.subscribe("/Vessel/#"), UserWarning, "did you mean '/Vessel/...'"),
    ("+ of MQTT", lambda s: s.subscribe("/+/1"), UserWarning, "did you mean '/*/1'"),
    ("an object", lambda s: s.subscribe(Vessel(mmsi=1)), skerry.LocalProtocolError, "class"),
    ("a called callback", lambda s: s.subscribe(Vessel, 5), skerry.LocalProtocolError, "function"),
    (
        "an async callback",
        lambda s: s.subscribe(Vessel, _handle),
        skerry.LocalProtocolError,
        "async",
    ),
    (
        "a wrong condition",
        lambda s: s.subscribe(Vessel, where="lat >"),
        skerry.FilterError,
        "value",
    ),
    ("an unknown field", lambda s: s.subscribe(Vessel, where="la = 1"), skerry.FilterError, "la"),
    (
        "text without quotes",
        lambda s: s.container(Vessel, where="name = A"),
        skerry.FilterError,
        "A",
    ),
    (
        "fields as text",
        lambda s: s.container(Vessel, fields="lat"),
        skerry.LocalProtocolError,
        "fields",
    ),
    ("an uncached type", lambda s: s.container(Hail), skerry.LocalProtocolError, "Hail"),
    ("a key of no object", lambda s: s.container(Vessel)[2], KeyError, "2"),
    (
        "an unserved request",
        lambda s: s.request(Hail(text="a")),
        skerry.NotRegistered,
        "no program",
    ),
    ("an async handler", lambda s: s.serve(Hail, _handle), skerry.LocalProtocolError, "async"),
    (
        "a wrong choice",
        lambda s: s.subscribe(Vessel, on_slow="wait"),
        skerry.LocalProtocolError,
        "wait",
    ),
    ("nobody there", lambda _: skerry.connect("localhost:1"), skerry.ConnectFailed, "no node"),
    ("another scheme", lambda _: skerry.connect("nats://localhost"), skerry.ConfigError, "scheme"),
    ("a host alone", lambda _: skerry.connect("localhost"), skerry.ConfigError, "scheme"),
    (
        "a missing type file",
        lambda _: skerry.load_types("none.dots"),
        skerry.SchemaError,
        "no such file",
    ),
    ("no field tag", lambda _: _declared(5), skerry.SchemaCheckError, "has no tag"),
]


def _declared(default: object) -> None:
    @skerry.struct
    class Wrong(skerry.Struct):
        id: int = default  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("act", "kind", "words"), [m[1:] for m in MISTAKES], ids=[m[0] for m in MISTAKES]
)
def test_a_mistake_is_answered(
    space: Any, act: Callable[[Any], object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind) as raised:
        act(space)
    hint = getattr(raised.value, "hint", None) or ""
    assert words in f"{raised.value} {hint}"
