"""What people who are new to skerry, or used to another system, type wrong, and what they read.

Each command ends at once or says first what it waits for. None shows a traceback. The mistakes in
programs are in `tests/unit/client/api/test_mistakes.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skerry
from tests.unit.conftest import LiveNode

Run = Callable[..., Any]

TYPES = skerry.define_types(
    "enum Kind { 1: ferry, 2: tug }"
    " struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: Kind kind; }"
    " struct Hail [cached=false] { 1: string text; }"
    " struct Pilot [cleanup] { 1: [key] uint32 id; }"
)


@pytest.fixture(scope="module")
def harbour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    """A node with a vessel, for all mistakes."""
    live = LiveNode(f"uds:{tmp_path_factory.mktemp('node')}/n.sock")
    try:
        live.start()
        with skerry.connect(live.place) as space:
            for obj in (TYPES.Vessel(mmsi=1, name="Maren"), TYPES.Hail(text="a")):
                space.publish(obj)
            space.publish(TYPES.Pilot(id=1))
            space.flush()
            yield live
    finally:
        live.end()


@pytest.fixture
def place(harbour: LiveNode, clean_place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a wrong type file, and the node as the default of commands."""
    monkeypatch.setenv("SKERRY_ENDPOINT", harbour.place)
    (clean_place / "fleet.dots").write_text("struct Vessel { 1: [key] uint32 mmsi; }\n")
    (clean_place / "broken.dots").write_text("struct Vessel { 1: [key] uint23 mmsi; }\n")
    (clean_place / "text.txt").write_text("hello\n")
    return clean_place


NOWHERE = "127.0.0.1:1"
MISTAKES: list[tuple[str, int, str]] = [
    # the node
    (f"get Vessel --node {NOWHERE}", 3, "start one with `skerry node run`, or name another"),
    ("get Vessel --node localhost", 2, "endpoints look like tcp://127.0.0.1:11235"),
    ("get Vessel --node nats://localhost:4222", 2, "there is no scheme 'nats'"),
    ("get Vessel --node http://localhost:8080", 2, "there is no scheme 'http'"),
    ("get Vessel --node tcp://localhost:99999", 2, "Port out of range 0-65535"),
    ("get Vessel --node uds:node.sock", 2, "a Unix socket needs an absolute path"),
    ("get Vessel --node uds:/no/such.sock", 3, "no node answered at uds:/no/such.sock"),
    ("get Vessel --node tls://127.0.0.1:1 --ca none.pem", 1, "none.pem"),
    ("get Vessel --context harbour", 1, "there is no context harbour"),
    ("node run --listen tcp://127.0.0.1:0 --listen 11235", 2, "'--listen': there is no scheme"),
    ("node run --storage mysql://x", 2, "unknown kind of storage 'mysql'"),
    # commands and options
    ("publish Vessel mmsi=1", 2, "unknown command 'publish', did you mean 'pub'?"),
    ("subscribe Vessel", 2, "unknown command 'subscribe', did you mean 'sub'?"),
    ("list", 2, "did you mean 'types list'?"),
    ("echo Vessel", 2, "did you mean 'sub'?"),
    ("types lst", 2, "Did you mean 'list'?"),
    ("sub Vessel --jsn", 2, "No such option '--jsn'. (Did you mean one of: '--json'"),
    ("sub Vessel --count many", 2, "'many' is not a valid integer range"),
    ("sub Vessel --count 0", 2, "'--count': 0 is not in the range x>=1"),
    ("sub", 2, "Missing argument 'TYPE|SUBJECT'"),
    # types
    ("get Vesel", 1, "did you mean Vessel?"),
    ("get vessel", 1, "did you mean Vessel?"),
    ("get Kind", 1, "Kind is an enum; only structs have objects"),
    ("get Hail", 1, "subscribe to it with `skerry sub Hail`"),
    ("get Vessel 2", 1, "no Vessel has the key mmsi=2"),
    ("get Vessel 1 2", 2, "the key of Vessel is mmsi"),
    ("get Vessel Maren", 2, "'KEY': Vessel.mmsi: expected uint32"),
    ("get Vessel --types flet.dots", 1, "flet.dots"),
    ("get Vessel --types broken.dots", 1, "uint23"),
    ("get Vessel --types text.txt", 1, "text.txt:1"),
    ("sub Vesel", 0, "the node does not know Vesel yet (did you mean Vessel?)"),
    ("hz Vesel", 0, "the node does not know Vesel yet (did you mean Vessel?)"),
    # fields and conditions
    ("pub Vessel", 0, "nothing was published: standard input was empty"),
    ("pub Vessel name=Maren", 2, "the key of Vessel is incomplete: give mmsi=VALUE"),
    ("pub Vessel mmsi=1 nam=x", 2, "did you mean name?"),
    ("pub Vessel mmsi 1", 2, "'mmsi' does not have the form FIELD=VALUE"),
    ("pub Vessel mmsi=x", 2, "Vessel.mmsi: expected uint32, got str 'x'"),
    ("pub Vessel mmsi=-1", 2, "-1 is out of the range of uint32"),
    ("pub Vessel mmsi=1 lat=52,1", 2, "Vessel.lat: expected float64"),
    ("pub Vessel mmsi=1 kind=boat", 2, "Kind has no 'boat'; it has ferry, tug"),
    ("pub mmsi=1", 2, "'mmsi=1' is not a type name; give the TYPE first"),
    ("pub Pilot id=2", 0, "the node removes these objects now: Pilot is a cleanup type"),
    ("get Vessel --where lat>>5", 2, "'--where'"),
    ("get Vessel --where name==Maren", 2, "'--where'"),
    ("get Vessel --where speed>5", 2, "Vessel has no field speed"),
    ("get Vessel --fields nam", 2, "did you mean name?"),
    ("get Vessel --format {nam}", 2, "there is no value nam"),
    # subjects
    ("sub /Vessel/**", 0, "did you mean '/Vessel/...'?"),
    ("sub /Vessel/#", 0, "did you mean '/Vessel/...'?"),
    ("sub prices.>", 2, "did you mean '/prices/...'?"),
    ("sub prices/*", 2, "did you mean '/prices/*'?"),
    ("sub *", 2, "did you mean '/...'?"),
    ("sub /.../x", 2, "... matches all remaining levels, so it can only be the last level"),
    ("sub /Vessel/* --where lat>5", 2, "--where and --fields need a type, not a subject"),
    ("pub --subject /prices/* --data 1", 2, "publish under one subject, without wild cards"),
    ("pub /prices/X --data 1", 2, "write `skerry pub --subject /prices/X`"),
    ("pub --subject /x --data @none.bin", 1, "none.bin: No such file or directory"),
    # requests, recordings and tables
    ("request Hail text=a", 1, "no program serves Hail"),
    ("request Hail text=a --to router", 1, "no program serves Hail as router"),
    ("replay nothing", 1, "nothing"),
    ("record info nothing", 1, "nothing"),
    ("record", 2, "give the folder with --to DIR"),
    ("replay nothing --from yesterday", 2, "'--from'"),
    ("pipeline asof --tables nothing --type Vessel --at 2026-11-15T14:00Z", 1, "nothing"),
    ("pipeline asof --tables nothing --type Vessel --at now", 2, "'--at'"),
]


def test_there_are_many_mistakes() -> None:
    assert len(MISTAKES) >= 60
    assert len({line for line, _, _ in MISTAKES}) == len(MISTAKES)


@pytest.mark.parametrize(("line", "code", "words"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_answered(
    run: Run,
    place: Path,
    fed: Callable[[bytes], None],
    monkeypatch: pytest.MonkeyPatch,
    line: str,
    code: int,
    words: str,
) -> None:
    fed(b"")
    # What waits for events ends here: all that helps has been said before.
    monkeypatch.setattr("skerry.cli.sub.follow", lambda *_arguments, **_options: None)
    if line.startswith("hz "):
        line += " --count 1 --interval 0.1"
    done = run(*line.split())
    assert words in done.err
    assert done.code == code
    assert "Traceback" not in done.err + done.out
    assert "bug in skerry" not in done.err
    assert len(done.err.splitlines()) <= 12
