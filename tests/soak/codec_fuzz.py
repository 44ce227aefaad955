"""Bytes that are no objects, by the hundred thousand: only a DecodeError ever comes out.

Cases are random bytes, objects with bytes changed, cut off or spliced together, and claims of more
than there is. Both codecs have to agree on each, checking without decoding has to accept exactly
what decoding accepts, and the most hostile payloads must not take more memory than a known
multiple of their size.
"""

from __future__ import annotations

import struct
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from random import Random
from typing import Any
from uuid import UUID

from skerry.codec.codec import Codec
from skerry.codec.frame import FrameCutter
from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.errors import CodecError, DecodeError
from skerry.limits import STRUCT_COUNT_MAX, VECTOR_COUNT_MAX
from skerry.objects.base import Struct
from skerry.objects.enums import EnumBase
from skerry.objects.internal import internal_class
from skerry.objects.typeset import define_types
from skerry.schema.model import INTEGER_RANGES, FieldType, Kind, RefType, StructType, VectorType
from tests.plan_walk import PlanWalk

CASES_PER_SEED = 1000
CASES_MIN = 100_000
"""Also when the time is short: a soak that tried less would say little."""
VIOLATIONS_MAX = 20

MEMORY_FACTOR_MAX = 400
"""Bytes of memory for one byte of payload. The worst is an empty struct: a byte becomes an object
with 31 fields. How many there may be is bounded."""

TEXT = """
enum Color { 1: red, 2: green, 300: blue }
struct Inner { 2: [key] string label; 1: bool flag; 30: uint8 high; 3: vector<Color> colors; }
struct Rich {
    5: [key] uint64 u; 1: bool b; 2: int8 i8; 3: int64 i64; 4: float16 f16; 6: float32 f32;
    7: float64 f64; 8: [key] string s; 9: bytes data; 10: uuid id; 11: timepoint tp;
    12: property_set ps; 13: any a; 14: instance_ref ref; 15: instance_ref<Rich> rich;
    16: Color color; 24: Inner inner; 25: vector<Inner> inners; 26: vector<float64> floats;
    27: vector<uint16> numbers; 31: [key] Inner owner; 28: vector<string> texts;
}
struct Small { 1: [key] uint32 id; 2: uint64 seq; 3: timepoint t; 4: float64 x; }
struct Empty31 { FIELDS }
struct Hostile { 1: vector<Empty31> a; 2: vector<Empty31> b; 3: vector<Empty31> c; }
""".replace("FIELDS", " ".join(f"{tag}: uint8 f{tag};" for tag in range(1, 32)))


def run(minutes: float) -> dict[str, Any]:
    """Seeds until the time is over, and at least CASES_MIN cases."""
    stop_s = time.monotonic() + minutes * 60
    first_seed = time.time_ns() % 1_000_000_000
    targets = [Target(cls) for cls in classes()]
    violations = memory_violations(targets) + count_violations(targets)
    seeds = 0
    while seeds * CASES_PER_SEED < CASES_MIN or time.monotonic() < stop_s:
        violations += run_seed(first_seed + seeds, targets)
        seeds += 1
        if len(violations) >= VIOLATIONS_MAX:
            break
    return {
        "name": "codec_fuzz",
        "seeds": seeds,
        "faults": 0,
        "inputs": seeds * CASES_PER_SEED,
        "violations": violations[:VIOLATIONS_MAX],
    }


class Target:
    """A class, and two codecs to compare."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls
        self.name: str = cls.descriptor.name
        self.codec = Codec(cls._codec.plan)
        self.walk = PlanWalk(cls._codec.plan)


def classes() -> list[Any]:
    types = define_types(TEXT)
    own = [types.Rich, types.Small, types.Empty31, types.Hostile]
    wire = ("DotsHeader", "DotsTransportHeader", "StructDescriptorData", "DotsMember", "DotsClient")
    return own + [internal_class(name) for name in wire]


def run_seed(seed: int, targets: list[Target]) -> list[str]:
    rng = Random(seed)
    violations = []
    for number in range(CASES_PER_SEED):
        target = rng.choice(targets)
        data = make_case(rng, target)
        fault = fault_of(target, data)
        if fault is not None:
            shown = data.hex() if len(data) < 2000 else data[:2000].hex() + "..."
            violations.append(f"seed {seed} case {number} {target.name}: {fault}; bytes {shown}")
    return violations


# -- what must hold


def fault_of(target: Target, data: bytes) -> str | None:
    """The violation in the processing of these bytes, or None."""
    said = outcome(target.codec.decode, data)
    calls: list[tuple[str, Callable[[bytes], Any]]] = [
        ("plan walk", target.walk.decode),
        ("normalize", target.codec.normalize),
        ("key", target.codec.key),
    ]
    if isinstance(said, str) and not said.startswith("DecodeError"):
        return f"decode: {said}"
    for name, call in calls:
        other = outcome(call, data)
        if isinstance(other, str) != isinstance(said, str) or (
            isinstance(said, str) and other != said
        ):
            return f"decode gave {said!r:.200}, {name} gave {other!r:.200}"
    if isinstance(said, str):
        return None
    again = outcome(target.codec.decode, said)
    if again != said:
        return f"encoded again it is {again!r:.200}"
    if outcome(target.walk.decode, data) != said:
        return "the codecs read different objects"
    return None


def outcome(call: Callable[[bytes], Any], data: bytes) -> Any:
    """The bytes of what came out, or what an error said."""
    try:
        result = call(data)
        return result.encode() if isinstance(result, Struct) else result
    except CodecError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:
        return f"{type(error).__name__} came out: {error}"


# -- cases


def make_case(rng: Random, target: Target) -> bytes:
    kind = rng.randrange(8)
    if kind == 0:
        return rng.randbytes(rng.randrange(40))
    if kind == 1:
        return bytes((0xA0 | rng.randrange(32),)) + rng.randbytes(rng.randrange(60))
    data: bytes = random_object(rng, target.cls).encode()
    if kind == 2:
        return data[: rng.randrange(len(data) + 1)]
    if kind == 3:
        other: bytes = random_object(rng, target.cls).encode()
        return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
    if kind == 4:
        return with_huge_head(rng, data)
    return mutated(rng, data)


def mutated(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(changed) + 1)
        way = rng.randrange(5)
        if way == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif way == 1 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif way == 2:
            del changed[at : at + rng.randrange(1, 5)]
        elif way == 3:
            changed[at:at] = rng.randbytes(rng.randrange(1, 5))
        else:
            changed[at:at] = changed[at : at + rng.randrange(1, 20)]
    return bytes(changed)


def with_huge_head(rng: Random, data: bytes) -> bytes:
    """Somewhere a head that claims more than there is."""
    major = rng.choice((0x00, 0x20, 0x40, 0x60, 0x80, 0xA0, 0xC0))
    info, size = rng.choice(((24, 1), (25, 2), (26, 4), (27, 8)))
    claim = rng.choice((b"\xff", b"\x7f", b"\x80")) + rng.choice((b"\xff", b"\x00")) * (size - 1)
    nest = rng.choice((b"", b"\x81" * rng.randrange(200)))
    at = rng.randrange(len(data) + 1)
    return data[:at] + nest + bytes((major | info,)) + claim + data[at:]


def random_object(rng: Random, cls: Any) -> Any:
    obj = cls()
    for field, attribute in zip(cls.descriptor.fields, cls._attributes.values(), strict=True):
        if rng.random() < 0.6:
            setattr(obj, attribute, random_value(rng, cls, field.type))
    return obj


def random_value(rng: Random, cls: Any, type_: FieldType) -> Any:
    if isinstance(type_, VectorType):
        return [random_value(rng, cls, type_.element) for _ in range(rng.choice((0, 1, 2, 25)))]
    if isinstance(type_, StructType):
        return random_object(rng, cls._nested[type_.name])
    if isinstance(type_, RefType):
        return Ref(type_.target or "Rich", rng.choice((b"\x80", b"\x81\x05", b"\x82\x61a\x20")))
    if type_.kind is Kind.ENUM:
        members: list[EnumBase] = list(cls._nested[type_.name])
        return rng.choice(members)
    if type_.kind in INTEGER_RANGES:
        low, high = INTEGER_RANGES[type_.kind]
        number = rng.choice((low, high, rng.randint(low, high), rng.randint(0, 30)))
        return PropertySet(number) if type_.kind is Kind.PROPERTY_SET else number
    size = rng.choice((0, 3, 23, 24, 300))
    made: dict[Kind, Callable[[], Any]] = {
        Kind.BOOL: lambda: rng.random() < 0.5,
        Kind.FLOAT16: lambda: rng.choice((0.0, -1.5, 65504.0)),
        Kind.FLOAT32: lambda: rng.choice((0.0, -1.5, float("inf"))),
        Kind.STRING: lambda: rng.randbytes(size).decode("utf-8", "surrogateescape"),
        Kind.BYTES: lambda: rng.randbytes(size),
        Kind.UUID: lambda: UUID(int=rng.getrandbits(128)),
        Kind.ANY: lambda: AnyObject("Rich", rng.randbytes(size)),
    }
    return made.get(type_.kind, lambda: rng.uniform(-1e9, 2e9))()


# -- memory


def memory_violations(targets: list[Target]) -> list[str]:
    by_name = {target.name: target for target in targets}
    return [
        f"{name}: {peak} bytes of memory for {len(data)} bytes, over {MEMORY_FACTOR_MAX} times"
        for name, call, data in hostile_samples(by_name)
        if (peak := peak_of(call, data)) > MEMORY_FACTOR_MAX * max(len(data), 1000)
    ]


def count_violations(targets: list[Target]) -> list[str]:
    """The largest payload of that kind is refused, and not by way of three gigabytes."""
    (hostile,) = [target for target in targets if target.name == "Hostile"]
    data = empty_structs(VECTOR_COUNT_MAX)
    found = {str(outcome(call, data)) for call in (hostile.codec.decode, hostile.walk.decode)}
    expected = f"over {STRUCT_COUNT_MAX} structs"
    return [f"Hostile: {said}" for said in found if expected not in said]


def hostile_samples(
    targets: dict[str, Target],
) -> Iterator[tuple[str, Callable[[bytes], Any], bytes]]:
    """The largest claims, and the payloads that make the most of each byte."""
    huge = b"\xff\xff\xff\xff"
    claims = [b"\xba" + huge, b"\xa1\x18\x19\x9a" + huge, b"\xa1\x08\x7a" + huge]
    claims += [b"\xa1\x0a\x5b" + huge * 2, b"\xa1\x18\x63\x9b" + huge * 2, b"\xa1\x18\x63\xbb\x7f"]
    rich = targets["Rich"]
    for data in claims:
        for codec in (rich.codec, rich.walk):
            yield f"claim {data.hex()}", codec.decode, data
        yield f"split {data.hex()}", rich.codec.split, data
        yield f"frame {data.hex()}", FrameCutter().feed, b"\x1a" + huge + data
    # A tenth of the limit keeps the soak small; memory grows in proportion.
    data = empty_structs(STRUCT_COUNT_MAX // 30)
    for codec in (targets["Hostile"].codec, targets["Hostile"].walk):
        yield "empty structs", codec.decode, data
    yield "split of empty structs", targets["Hostile"].codec.split, data


def empty_structs(count: int) -> bytes:
    """Three vectors of so many structs of a byte each."""
    vector = b"\x9a" + struct.pack(">I", count) + b"\xa0" * count
    return b"\xa3\x01" + vector + b"\x02" + vector + b"\x03" + vector


def peak_of(call: Callable[[bytes], Any], data: bytes) -> int:
    tracemalloc.start()
    try:
        call(data)
    except DecodeError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


if __name__ == "__main__":
    print(run(float(sys.argv[1]) if len(sys.argv) > 1 else 0.0))
