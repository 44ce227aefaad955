"""`skerry pub`, on a real node."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.cli import pub
from skerry.cli.stopping import Stop
from skerry.errors import RequestTimedOut, WouldBlock

Run = Callable[..., Any]
Fed = Callable[[bytes], None]


def objects(run: Run, *arguments: str) -> list[dict[str, Any]]:
    done = run("get", *arguments, "--json")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    return [{k: v for k, v in row.items() if not k.startswith("_")} for row in rows]


def test_only_given_fields_change(run: Run, node: Any, types: Path) -> None:
    assert run("pub", "Vessel", "mmsi=1", "name=Maren", "--types", types).code == 0
    # By now the node knows the type.
    assert run("pub", "Vessel", "mmsi=1", "lat=53", "kind=tug").code == 0
    assert objects(run, "Vessel") == [{"mmsi": 1, "name": "Maren", "lat": 53.0, "kind": "tug"}]


def test_text_is_taken_literally(run: Run, node: Any, types: Path) -> None:
    assert run("pub", "Vessel", "mmsi=1", "name=123", "--types", types).code == 0
    assert run("pub", "Vessel", "mmsi=2", "name=", "--types", types).code == 0
    assert run("pub", "Vessel", "mmsi=3", 'name="a" = b', "--types", types).code == 0
    assert [vessel["name"] for vessel in objects(run, "Vessel")] == ["123", "", '"a" = b']


def test_field_can_be_cleared(run: Run, node: Any, types: Path) -> None:
    run("pub", "Vessel", "mmsi=1", "name=Maren", "lat=1", "--types", types)
    assert run("pub", "Vessel", "mmsi=1", "--clear", "name").code == 0
    assert objects(run, "Vessel") == [{"mmsi": 1, "lat": 1.0}]


def test_object_can_be_removed(run: Run, node: Any, types: Path) -> None:
    run("pub", "Vessel", "mmsi=1", "name=Maren", "--types", types)
    assert run("pub", "Vessel", "mmsi=1", "--remove").code == 0
    assert objects(run, "Vessel") == []


def test_lines_of_json_are_published_and_null_clears(
    run: Run, node: Any, types: Path, fed: Fed
) -> None:
    fed(b'{"mmsi": 1, "name": "A"}\n\n{"mmsi": 2, "lat": 3.5, "_a": 4}\n{"mmsi": 1, "name": null}')
    assert run("pub", "Vessel", "--types", types).code == 0
    assert objects(run, "Vessel") == [{"mmsi": 1}, {"mmsi": 2, "lat": 3.5}]


def test_output_of_sub_can_be_published(run: Run, node: Any, types: Path, fed: Fed) -> None:
    fed(b'{"mmsi": 1, "_operation": "create"}\n{"mmsi": 1, "_operation": "remove"}\n{"mmsi": 2}\n')
    assert run("pub", "Vessel", "--types", types).code == 0
    assert objects(run, "Vessel") == [{"mmsi": 2}]


@pytest.mark.parametrize("line", [b"{", b"[1]", b'{"mmsi": "x"}', b'{"what": 1}', b"[" * 9999])
def test_invalid_line_is_an_error_with_its_number(
    run: Run, node: Any, types: Path, fed: Fed, line: bytes
) -> None:
    fed(b'{"mmsi": 1}\n' + line + b"\n")
    done = run("pub", "Vessel", "--types", types)
    assert done.code == 1
    assert "line 2 of standard input:\nerror: Vessel" in done.err


@pytest.mark.parametrize(
    ("data", "content"),
    [
        ("92.14", b"92.14"),
        ("\udcff", b"\xff"),
        ("hex:00ff", b"\x00\xff"),
        ("@price", b"9\n"),
        ("-", b"a\nb"),
    ],
)
def test_bytes_go_under_a_subject(
    run: Run, node: Any, clean_place: Path, fed: Fed, data: str, content: bytes
) -> None:
    (clean_place / "price").write_bytes(b"9\n")
    fed(b"a\nb")
    with skerry.connect(node.place) as space, space.subscribe("/prices/*") as received:
        space.flush()
        assert run("pub", "--subject", "/prices/X", "--data", data).code == 0
        event = received.get(10)
    assert event is not None
    assert (event.subject, event.data) == ("/prices/X", content)


def test_each_line_is_a_message_without_data(run: Run, node: Any, fed: Fed) -> None:
    fed(b"a\nb\n")
    with skerry.connect(node.place) as space, space.subscribe("/prices/*") as received:
        space.flush()
        assert run("pub", "--subject", "/prices/X").code == 0
        events = [received.get(10), received.get(10)]
    assert [event.data for event in events if event is not None] == [b"a", b"b"]


def test_object_can_have_another_subject(run: Run, node: Any, types: Path) -> None:
    with skerry.connect(node.place) as space, space.subscribe("/nav/...") as received:
        space.flush()
        arguments = ("pub", "Vessel", "mmsi=1", "--subject", "/nav/tracks/7", "--types", types)
        assert run(*arguments).code == 0
        event = received.get(10)
    assert event is not None
    assert (event.subject, event.object.mmsi) == ("/nav/tracks/7", 1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "give a TYPE"),
        (("Vessel", "mmsi"), "'mmsi' does not have the form FIELD=VALUE"),
        (("Vessel", "mmsi=1", "mmsi=2"), "mmsi is given twice"),
        (
            ("Vessel", "mmsi=1", "name=a", "--clear", "name"),
            "name has a value and is also in --clear",
        ),
        (("Vessel", "--clear", "name"), "--clear needs the key"),
        (("mmsi=1", "name=a"), "is not a type name"),
        (("Vessel", "--data", "x"), "--data needs --subject without a TYPE"),
        (("--subject", "/a", "--remove"), "nothing to remove"),
        (("--subject", "/a", "--data", "hex:0"), "is not hex: with pairs of digits"),
        (("Ship", "mmsi=1"), "no struct Ship in the type files"),
        (("Vessel", "mmsi=-1"), "'FIELD=VALUE': Vessel.mmsi: -1 is out of the range of uint32"),
        (("Vessel", "mmsi=x"), "'FIELD=VALUE': Vessel.mmsi: expected uint32"),
        (("Vessel", "mmsi=1", "nam=x"), "'FIELD=VALUE': Vessel has no field nam"),
        (("Vessel", "mmsi=1", "nam=x"), "did you mean name?"),
        (("Vessel", "mmsi=1", "qqq=x"), "its fields are mmsi, name, lat, kind"),
        (("Vessel", "mmsi", "=", "1"), "which is one argument without spaces around ="),
        (("/Vessel/1",), "'/Vessel/1' is a subject: write `skerry pub --subject /Vessel/1`"),
        (("Vessel", "mmsi=1", "--clear", "nam"), "'--clear': Vessel has no field nam"),
        (("Vessel", "name=x"), "the key of Vessel is incomplete: give mmsi=VALUE"),
        (("Vessel", "name=x", "--clear", "mmsi"), "the key of Vessel is incomplete"),
        (("--subject", "a", "--data", "x"), "'--subject': a cannot be used as a subject"),
        (("Vessel", "mmsi=1", "--subject", "/a/*"), "the level * is a wild card"),
    ],
)
def test_wrong_use_is_exit_code_two(
    run: Run, node: Any, types: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    done = run("pub", *arguments, "--types", types)
    assert done.code == 2
    assert complaint in done.err


def test_no_node_is_exit_code_three_with_a_hint(run: Run, types: Path) -> None:
    done = run("pub", "Vessel", "mmsi=1", "--types", types, "--node", f"uds:{types.parent}/none")
    assert done.code == 3
    assert "no node answered" in done.err
    assert "skerry node run" in done.err


def test_publish_waits_while_the_buffer_is_full() -> None:
    class Full:
        drained_count = 0

        def drain(self) -> None:
            self.drained_count += 1

    space = Full()

    def publish() -> None:
        if space.drained_count < 2:
            raise WouldBlock("full")

    pub._retry(space, publish)  # type: ignore[arg-type]
    assert space.drained_count == 2


def test_slow_storage_is_awaited_until_a_signal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Slow:
        flush_count = 0

        def flush(self) -> None:
            self.flush_count += 1
            if self.flush_count < 3:
                raise RequestTimedOut("later")

    notes: list[str] = []

    class Heard:
        note = staticmethod(notes.append)

    monkeypatch.setattr(pub, "current_output", Heard)
    space, stop = Slow(), Stop()
    pub._confirm(space, stop)  # type: ignore[arg-type]
    assert notes == ["still waiting for the node to confirm all updates"] * 2
    stop.request()
    with pytest.raises(RequestTimedOut):
        pub._confirm(Slow(), stop)  # type: ignore[arg-type]


def test_confirmed_updates_are_counted_as_json(run: Run, node: Any, types: Path, fed: Fed) -> None:
    fed(b'{"mmsi": 1}\n{"mmsi": 2}\n{"mmsi": 2, "_operation": "remove"}\n')
    done = run("pub", "Vessel", "--types", types, "--json")
    assert json.loads(done.out) == {"type": "Vessel", "published": 2, "removed": 1}
    done = run("pub", "--subject", "/a/b", "--data", "x", "--json")
    assert json.loads(done.out) == {"subject": "/a/b", "published": 1, "removed": 0}


PILOT = "struct Pilot [cleanup] { 1: [key] uint32 id; }"


def test_objects_that_leave_with_the_command_are_announced(
    run: Run, node: Any, clean_place: Path
) -> None:
    (clean_place / "pilot.dots").write_text(PILOT)
    done = run("pub", "Pilot", "id=1", "--types", "pilot.dots")
    assert done.code == 0
    assert "warning: the node removes these objects now: Pilot is a cleanup type" in done.err
    assert run("get", "Pilot").out == ""
    removal = run("pub", "Pilot", "id=1", "--remove")
    assert "warning" not in removal.err


def test_stay_keeps_objects_of_cleanup_types_until_a_signal(
    run: Run, node: Any, clean_place: Path
) -> None:
    (clean_place / "pilot.dots").write_text(PILOT)
    pilot = skerry.define_types(PILOT).Pilot
    seen: list[str] = []

    def note(event: Any) -> None:
        seen.append(event.operation)
        if event.operation == "create":
            os.kill(os.getpid(), signal.SIGINT)
        else:
            removed.set()

    removed = threading.Event()
    with skerry.connect(node.place, types=[pilot]) as space:
        space.subscribe(pilot, note)
        done = run("pub", "Pilot", "id=1", "--stay")
        assert removed.wait(10)
    assert (done.code, seen) == (0, ["create", "remove"])
    assert "published; Ctrl-C disconnects" in done.err
