"""Captured sessions and what chance makes of them: repeatable, various, and often still frames."""

from __future__ import annotations

from pathlib import Path
from random import Random

from skerry.codec.frame import FrameCutter
from skerry.errors import DecodeError
from skerry.protocol.access.header import read_header
from tests.captured_sessions import mutated_bytes, mutated_session, read_sessions

CAPTURES = Path(__file__).parents[1] / "golden" / "dots"


def test_sessions_of_all_framings_are_read_in_the_order_of_their_files() -> None:
    sessions = read_sessions(CAPTURES)
    assert {session.framing for session in sessions} == {"v1", "v2", "json"}
    names = [session.name for session in sessions]
    assert names == sorted(names)
    assert "auth-digests" not in names, "it has no frames"
    assert all(session.pieces for session in sessions)


def test_a_session_has_the_frames_of_its_client() -> None:
    (session,) = [s for s in read_sessions(CAPTURES) if s.name == "join-leave-echo"]
    (body,) = FrameCutter().feed(session.pieces[0])
    assert read_header(body, 0)[0].type_name == "DotsMsgConnect"


def test_the_same_chance_makes_the_same_of_a_session() -> None:
    sessions = read_sessions(CAPTURES)
    made = [mutated_session(sessions[3], sessions, Random(5)) for _ in range(2)]
    assert made[0] == made[1]
    assert len({tuple(mutated_session(sessions[3], sessions, Random(n))) for n in range(50)}) > 30


def test_some_sessions_are_unchanged_and_some_have_valid_frames() -> None:
    sessions = [session for session in read_sessions(CAPTURES) if session.framing == "v2"]
    whole = framed = broken = 0
    for seed in range(300):
        rng = Random(seed)
        session = rng.choice(sessions)
        pieces = mutated_session(session, sessions, rng)
        data = b"".join(pieces)
        if tuple(pieces) == session.pieces:
            whole += 1
            continue
        if is_framed(data):
            framed += 1
        else:
            broken += 1
    assert whole > 20
    assert framed > 60
    assert broken > 20


def is_framed(data: bytes) -> bool:
    try:
        bodies = FrameCutter().feed(data)
    except DecodeError:
        return False
    return sum(len(body) + 5 for body in bodies) == len(data)


def test_bytes_are_changed_in_place_cut_and_made_longer() -> None:
    data = bytes(range(100))
    made = [mutated_bytes(data, Random(seed)) for seed in range(200)]
    sizes = {len(item) for item in made}
    assert min(sizes) < 100 < max(sizes)
    assert any(len(item) == 100 and item != data for item in made)
    assert mutated_bytes(b"", Random(1)) == mutated_bytes(b"", Random(1))
