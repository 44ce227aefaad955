"""Captured sessions of clients for fuzzing, and random mutations of them.

A slightly changed session reaches much more code of a node than random bytes. So most mutations
keep the form of frames and change their content.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

from skerry.codec.frame import frame

Framing = Literal["v1", "v2", "json"]

_FRAME_HEAD_BYTES: Final = 5
_MARKS: Final = (b"\x1a", b"\xa1", b"\xbf", b"\x9f", b"\xff", b"\xfb", b"\xf6", b"\x00", b'"', b"{")
"""Bytes with a meaning: heads of frames, maps and arrays, some of indefinite length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedSession:
    """The frames, or text messages, that one client sent."""

    name: str
    framing: Framing
    pieces: tuple[bytes, ...]


def read_sessions(folder: Path) -> list[CapturedSession]:
    """The sessions in a folder of captures, sorted by file name."""
    found = [_read(json.loads(path.read_text("utf-8"))) for path in sorted(folder.glob("*.json"))]
    return [session for session in found if session is not None and session.pieces]


def mutated_session(
    session: CapturedSession, others: Sequence[CapturedSession], rng: Random
) -> list[bytes]:
    """The session of a malicious client: a copy with a few changes, or none."""
    pieces = list(session.pieces)
    for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
        _mutate(pieces, session.framing, others, rng)
    return pieces


def mutated_bytes(data: bytes, rng: Random) -> bytes:
    """The bytes with a few changes: flipped, removed, inserted and repeated ones."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(changed) + 1)
        way = rng.randrange(7)
        if way == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif way == 1 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif way == 2:
            del changed[at : at + rng.randrange(1, 9)]
        elif way == 3:
            changed[at:at] = rng.randbytes(rng.randrange(1, 9))
        elif way == 4:
            changed[at:at] = changed[at : at + rng.randrange(1, 30)]
        elif way == 5:
            changed[at:at] = rng.choice(_MARKS) * rng.choice((1, 1, 2, 300))
        else:
            # A head that claims more bytes than follow.
            head = rng.choice((0x00, 0x20, 0x40, 0x60, 0x80, 0xA0)) | rng.randrange(24, 28)
            changed[at : at + 1] = bytes((head,)) + b"\xff" * rng.randrange(9)
    return bytes(changed)


def _read(capture: dict[str, Any]) -> CapturedSession | None:
    if "frames" in capture:
        frames = [row for row in capture["frames"] if row.get("dir") == "client->server"]
        pieces = [bytes.fromhex(row["hex"]) for row in frames if "hex" in row]
        framing: Framing = "v1" if capture["framing"] == "v1" else "v2"
        return CapturedSession(name=capture["name"], framing=framing, pieces=tuple(pieces))
    if "messages" in capture:
        messages = [row for row in capture["messages"] if row.get("dir") == "client->server"]
        texts = [row["text"].encode() for row in messages if "text" in row]
        return CapturedSession(name=capture["name"], framing="json", pieces=tuple(texts))
    return None


def _mutate(
    pieces: list[bytes], framing: Framing, others: Sequence[CapturedSession], rng: Random
) -> None:
    way = rng.randrange(10)
    at = rng.randrange(len(pieces)) if pieces else 0
    if way == 0 or not pieces:
        pieces.insert(at, rng.randbytes(rng.choice((1, 5, 40, 3000))))
    elif way == 1:
        del pieces[at]
    elif way == 2:
        pieces.insert(rng.randrange(len(pieces) + 1), pieces[at])
    elif way == 3:
        pieces[at] = pieces[at][: rng.randrange(len(pieces[at]) + 1)]
    elif way == 4:
        pieces.insert(at, rng.choice(rng.choice(others).pieces))
    elif way == 5:
        pieces[at] = mutated_bytes(pieces[at], rng)
    else:
        pieces[at] = _mutated_inside(pieces[at], framing, rng)


def _mutated_inside(piece: bytes, framing: Framing, rng: Random) -> bytes:
    """Mutate the content of a frame and correct its length, so that the content is decoded."""
    if framing != "v2" or len(piece) <= _FRAME_HEAD_BYTES:
        return mutated_bytes(piece, rng)
    return frame(mutated_bytes(piece[_FRAME_HEAD_BYTES:], rng))
