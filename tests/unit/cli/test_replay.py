"""`skerry replay`: to a real node, by hand and by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.apps.replayer.pacing import Pacer
from skerry.cli.replay import apply_key, progress_text
from skerry.cli.stopping import Stop
from skerry.codec.envelope import CREATE, Update
from skerry.recording.gaps import Gap
from skerry.runtime.recordings.writer import RecordingWriter
from skerry.schema.fingerprint import fingerprint

Run = Callable[..., Any]

SHIP = skerry.define_types("struct Ship { 1: [key] uint32 id; 2: string name; }").Ship
START_NS = 1_700_000_000_000_000_000
MS = 1_000_000


@pytest.fixture
def recording(clean_place: Path) -> Path:
    folder = clean_place / "rec"
    with RecordingWriter(folder, space="local") as writer:
        writer.describe(SHIP.descriptor)
        for number in range(1, 5):
            obj: Any = SHIP(id=number, name=f"S{number}")
            writer.append(
                Update(
                    type_name="Ship",
                    subject=f"/Ship/{number}",
                    operation=CREATE,
                    present=6,
                    key=b"\x81" + bytes([number]),
                    payload=obj.encode(),
                    fingerprint=fingerprint(SHIP.descriptor),
                    node=7,
                    sender=2,
                    sequence=number,
                    position=number,
                    time_ns=START_NS + number * MS,
                )
            )
        writer.append_gap(Gap(count=2, first=9, stop=11, reason="lost", first_ns=START_NS + 5 * MS))
    return folder


def ships(node: Any) -> set[int]:
    with skerry.connect(node.place, types=[SHIP]) as space:
        return set(space.container(SHIP))


def test_a_recording_is_played_to_a_node(run: Run, node: Any, recording: Path) -> None:
    done = run("replay", recording, "--node", node.place)
    assert done.code == 0, done.err
    assert "4 updates played; 1 gaps" in done.out
    assert "2 updates are missing here: lost" in done.err
    assert ships(node) == {1, 2, 3, 4}


def test_a_range_is_played_with_the_objects_at_its_start(
    run: Run, node: Any, recording: Path
) -> None:
    arguments = (
        "--from",
        str(START_NS + 3 * MS),
        "--to",
        str(START_NS + 4 * MS),
        "--fast",
        "--json",
    )
    done = run("replay", recording, "--node", node.place, *arguments)
    assert json.loads(done.out)["played"] == 3
    assert ships(node) == {1, 2, 3}


def test_bare_omits_the_objects_at_the_start(run: Run, node: Any, recording: Path) -> None:
    arguments = ("--from", str(START_NS + 3 * MS), "--fast", "--bare", "--subjects", "/Ship/4")
    run("replay", recording, "--node", node.place, *arguments)
    assert ships(node) == {4}


def test_lines_are_steps(
    run: Run, node: Any, recording: Path, fed: Callable[[bytes], None]
) -> None:
    fed(b"\n1\nnext\n")
    done = run("replay", recording, "--node", node.place, "--step")
    assert done.code == 0, done.err
    assert "2 updates played" in done.out


def test_the_default_target_is_the_node_of_other_commands(
    run: Run, node: Any, recording: Path
) -> None:
    done = run("replay", recording, "--fast")
    assert done.code == 0, done.err
    assert f"playing to {node.place}" in done.err
    assert ships(node) == {1, 2, 3, 4}


def test_there_is_one_target(run: Run, recording: Path) -> None:
    both = ("--node", "tcp://127.0.0.1:1", "--multicast", "239.1.1.1:1")
    done = run("replay", recording, *both)
    assert done.code == 2
    assert "--node and --multicast exclude each other" in done.err


def test_missing_target_is_unreachable(run: Run, recording: Path, clean_place: Path) -> None:
    assert run("replay", recording, "--node", f"uds:{clean_place}/no.sock").code == 3
    assert run("replay", clean_place / "nothing", "--node", "tcp://127.0.0.1:1").code == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--node", "x"), "'--node': there is no scheme 'x'; there are tcp"),
        (("--multicast", "x"), "'--multicast': 'x' is not of the form ADDRESS:PORT"),
        (("--node", "tcp://h", "--subjects", "a"), "'--subjects': a cannot be used as a pattern"),
    ],
)
def test_wrong_use_is_exit_code_two(run: Run, arguments: tuple[str, ...], complaint: str) -> None:
    done = run("replay", "nothing", *arguments)
    assert done.code == 2
    assert complaint in done.err


def pacer() -> Pacer[Update]:
    def begin() -> Iterator[Update]:
        return iter(())

    return Pacer(begin)


def test_fast_has_no_speed(run: Run, recording: Path) -> None:
    done = run("replay", recording, "--node", "uds:/x", "--fast", "--speed", "2")
    assert done.code == 2
    assert "--speed" in done.err


def test_keys_pause_step_and_end() -> None:
    clock, stop = pacer(), Stop()
    states = []
    for key in " ", " ", "n", "x":
        apply_key(key, clock, stop)
        states.append((key, clock.is_paused, stop.is_requested))
    assert states == [
        (" ", True, False),
        (" ", False, False),
        ("n", True, False),
        ("x", True, False),
    ]
    assert progress_text(clock) == "paused: 0 updates"
    apply_key("q", clock, stop)
    apply_key("q", clock, stop)
    assert stop.is_requested
    assert progress_text(pacer()) == "playing: 0 updates"
