"""A small struct to bytes and back, beside cbor2 and msgspec's MessagePack.

All are measured in turns within one run, in CPU time per object. cbor2 goes from and to an object
of a plain class, as a program that uses it would; how it does with a ready dictionary is shown
too, without a goal. msgspec writes another format and is here for orientation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cbor2
import msgspec

import skerry
from benchmarks.rows import Row, best_of

TYPES = skerry.define_types("""
struct BenchSmall {
    1: [key] uint32 id;
    2: uint64 seq;
    3: timepoint t;
    4: float64 x;
}
""")
BenchSmall = TYPES.BenchSmall


class Plain:
    """The same object in a program without a type system."""

    __slots__ = ("id", "seq", "t", "x")

    def __init__(self, id: Any, seq: Any, t: Any, x: Any) -> None:  # noqa: A002
        self.id = id
        self.seq = seq
        self.t = t
        self.x = x


class Packed(msgspec.Struct):
    """The same for msgspec."""

    id: int | None = None
    seq: int | None = None
    t: float | None = None
    x: float | None = None


VALUES = (1234, 123_456_789, 1_700_000_000.123456, 2.5)


def run() -> list[Row]:
    """Rows for encoding and decoding, each with its goal."""
    ours = BenchSmall(id=VALUES[0], seq=VALUES[1], t=VALUES[2], x=VALUES[3])
    plain = Plain(*VALUES)
    packed = Packed(*VALUES)
    ready = dict(enumerate(VALUES, start=1))
    data = ours.encode()
    pack = msgspec.msgpack.Encoder().encode
    unpack = msgspec.msgpack.Decoder(Packed).decode
    packed_data = pack(packed)
    if _from_plain(plain) != data or _values_of(_to_plain(data)) != VALUES:
        raise AssertionError("the peers do not write the same bytes")

    encode = best_of(
        ours.encode,
        lambda: _from_plain(plain),
        lambda: cbor2.dumps(ready),
        lambda: pack(packed),
    )
    decode = best_of(
        lambda: BenchSmall.decode(data),
        lambda: _to_plain(data),
        lambda: cbor2.loads(data),
        lambda: unpack(packed_data),
    )
    return [
        *_rows("encode", encode, goal=0.3),
        *_rows("decode", decode, goal=0.7),
    ]


def _values_of(plain: Plain) -> tuple[Any, ...]:
    """The values of a plain object."""
    return plain.id, plain.seq, plain.t, plain.x


def _from_plain(plain: Plain) -> bytes:
    return cbor2.dumps({1: plain.id, 2: plain.seq, 3: plain.t, 4: plain.x})


def _to_plain(data: bytes) -> Plain:
    get = cbor2.loads(data).get
    return Plain(get(1), get(2), get(3), get(4))


def _rows(what: str, times: Sequence[float], *, goal: float) -> list[Row]:
    ours, from_object, from_dictionary, msgpack = times
    peers = (
        ("cbor2, from and to an object", from_object, goal),
        ("cbor2, a ready dictionary", from_dictionary, None),
        ("msgspec MessagePack", msgpack, None),
    )
    return [
        Row(
            name=f"codec {what}",
            ours=ours,
            theirs=theirs,
            peer=peer,
            unit="ns CPU",
            goal=bar,
            is_less_better=True,
        )
        for peer, theirs, bar in peers
    ]
