"""The codec of one struct as Python functions written for it: what plain installations use.

The functions know only the common case: exact Python types on the way out, canonical order and
well-formed values on the way in. Whatever else they meet, they leave to the tables, which either
handle it or say precisely what is wrong. So there is one set of rules, and a fast road for
objects that keep to the middle of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from skerry.codec.decoder import decode_value
from skerry.codec.encoder import encode_value
from skerry.codec.pieces import Pieces
from skerry.codec.plans import FieldPlan, StructPlan
from skerry.codec.tables import TableCodec
from skerry.errors import DecodeError, EncodeError
from skerry.limits import PAYLOAD_BYTES_MAX, STRUCT_COUNT_MAX
from skerry.schema.model import Kind

__all__ = ["GeneratedCodec"]

_INTEGERS = range(Kind.INT8, Kind.UINT64 + 1)
_DOUBLES = (Kind.FLOAT64, Kind.TIMEPOINT, Kind.STEADY_TIMEPOINT, Kind.DURATION)


class GeneratedCodec:
    """A TableCodec whose ways from and to objects were written for its type."""

    __slots__ = (
        "decode",
        "decode_from",
        "encode",
        "encode_key",
        "encode_only",
        "key",
        "key_of",
        "layout",
        "merge",
        "normalize",
        "plan",
        "split",
    )

    def __init__(self, plan: StructPlan) -> None:
        table = TableCodec(plan)
        scope = _scope(table, plan)
        source = "\n".join([*_encode_source(plan), *_decode_source(plan)])
        exec(compile(source, f"<codec of {plan.name!a}>", "exec"), scope)  # noqa: S102
        self.plan = plan
        self.layout = table.layout
        self.encode: Callable[[object], bytes] = scope["encode"]
        self.encode_only: Callable[[object, int], bytes] = scope["encode_only"]
        self.decode: Callable[[bytes], Any] = scope["decode"]
        self.decode_from: Callable[[bytes, int], tuple[Any, int]] = scope["decode_from"]
        self.encode_key: Callable[[object], bytes] = table.encode_key
        self.split: Callable[..., Pieces] = table.split
        self.key: Callable[[bytes], bytes] = table.key
        self.key_of: Callable[[Pieces], bytes] = table.key_of
        self.normalize: Callable[[bytes], bytes] = table.normalize
        self.merge: Callable[[bytes, bytes, int], bytes] = table.merge


def _scope(table: TableCodec, plan: StructPlan) -> dict[str, Any]:
    """The names that the written functions use."""
    scope: dict[str, Any] = {
        "CLS": plan.cls,
        "NEW": plan.new,
        "PLAN": plan,
        "TABLE": table,
        "SIZE_MAX": PAYLOAD_BYTES_MAX,
        "COUNT_MAX": STRUCT_COUNT_MAX,
        "encode_value": encode_value,
        "decode_value": decode_value,
        "error": struct.error,
        "DecodeError": DecodeError,
        "EncodeError": EncodeError,
    }
    for code in "BHIQd":
        scope[f"pack_{code}"] = struct.Struct(f">BB{code}").pack
        scope[f"pack_long_{code}"] = struct.Struct(f">BBB{code}").pack
        scope[f"read_{code}"] = struct.Struct(f">{code}").unpack_from
    for field in plan.fields:
        index, spec = int(field.index), field.value
        scope[f"F{index}"] = field
        scope[f"HEAD{index}"] = field.head
        scope[f"SMALL{index}"] = [field.head + bytes((n,)) for n in range(24)]
        scope[f"TEXT{index}"] = [field.head + bytes((0x60 | n,)) for n in range(24)]
        scope[f"BOOL{index}"] = (field.head + b"\xf4", field.head + b"\xf5")
        scope[f"CLASS{index}"] = spec.member_class
        if spec.kind == Kind.ENUM:
            scope[f"TAGS{index}"] = {
                tag: encode_value(plan, field, member) for tag, member in spec.members.items()
            }
        if spec.struct is not None:
            scope[f"CLASS{index}"] = spec.struct.cls
            known = spec.struct.cls._codec
            is_generated = isinstance(known, GeneratedCodec)
            scope[f"NESTED{index}"] = known if is_generated else GeneratedCodec(spec.struct)
    return scope


# -- objects to bytes


def _encode_source(plan: StructPlan) -> Iterator[str]:
    yield from _encode_function(plan, "encode(obj)", "", "TABLE.encode(obj)")
    yield from _encode_function(
        plan, "encode_only(obj, mask)", "mask", "TABLE.encode_only(obj, mask)"
    )


def _encode_function(plan: StructPlan, signature: str, mask: str, fallback: str) -> Iterator[str]:
    yield f"def {signature}:"
    yield "  try:"
    yield "    out = bytearray(1)"
    yield "    count = 0"
    for field in plan.fields:
        selected = f" and {mask} & {1 << int(field.tag)}" if mask else ""
        yield f"    v = obj.{field.attribute}"
        yield f"    if v is not None{selected}:"
        yield "      count += 1"
        for line in _encode_field(field):
            yield "      " + line
    yield "    if len(out) < SIZE_MAX:"
    yield "      if count < 24:"
    yield "        out[0] = 0xA0 | count"
    yield "        return bytes(out)"
    yield "      out[0] = count"
    yield "      return b'\\xb8' + out"
    yield "  except (AttributeError, KeyError, UnicodeEncodeError, EncodeError):"
    yield "    pass"
    yield f"  return {fallback}"


def _encode_field(field: FieldPlan) -> Iterator[str]:
    index, kind, spec = int(field.index), int(field.kind), field.value
    pack = "pack_%s({tag}, " if field.tag < 24 else "pack_long_%s(24, {tag}, "
    pack = pack.format(tag=int(field.tag))
    if kind in _INTEGERS and spec.low >= 0:
        yield f"if type(v) is int and 0 <= v <= {spec.high}:"
        yield f"  if v < 24: out += SMALL{index}[v]"
        yield f"  elif v < 0x100: out += {pack % 'B'}24, v)"
        yield f"  elif v < 0x10000: out += {pack % 'H'}25, v)"
        yield f"  elif v < 0x100000000: out += {pack % 'I'}26, v)"
        yield f"  else: out += {pack % 'Q'}27, v)"
    elif kind in _DOUBLES:
        yield "if type(v) is float:"
        yield f"  out += {pack % 'd'}0xFB, v)"
    elif kind == Kind.STRING:
        yield "if type(v) is str and len(v) < 24 and len(data := v.encode()) < 24:"
        yield f"  out += TEXT{index}[len(data)]"
        yield "  out += data"
    elif kind == Kind.BOOL:
        yield "if v is True or v is False:"
        yield f"  out += BOOL{index}[v]"
    elif kind == Kind.ENUM:
        yield f"if type(v) is CLASS{index}:"
        yield f"  out += HEAD{index}"
        yield f"  out += TAGS{index}[v.tag]"
    elif kind == Kind.STRUCT:
        yield f"if type(v) is CLASS{index}:"
        yield f"  out += HEAD{index}"
        yield f"  out += NESTED{index}.encode(v)"
    else:
        yield f"out += HEAD{index}"
        yield f"out += encode_value(PLAN, F{index}, v)"
        return
    yield "else:"
    yield f"  out += HEAD{index}"
    yield f"  out += encode_value(PLAN, F{index}, v)"


# -- bytes to objects


def _decode_source(plan: StructPlan) -> Iterator[str]:
    yield from _decode_function(
        plan,
        "decode(data)",
        start="0",
        leave="type(data) is not bytes or len(data) > COUNT_MAX",
        is_bad="pos != len(data)",
        result="obj",
        fallback="TABLE.decode(data)",
    )
    yield from _decode_function(
        plan,
        "decode_from(data, start)",
        start="start",
        leave="type(data) is not bytes",
        is_bad="pos > len(data)",
        result="obj, pos",
        fallback="TABLE.decode_from(data, start)",
    )


def _decode_function(
    plan: StructPlan,
    signature: str,
    *,
    start: str,
    leave: str,
    is_bad: str,
    result: str,
    fallback: str,
) -> Iterator[str]:
    yield f"def {signature}:"
    yield f"  if {leave}: return {fallback}"
    yield "  try:"
    yield f"    left = data[{start}] - 0xA0"
    yield f"    pos = {start} + 1"
    if len(plan.fields) >= 24:
        yield "    if left == 24:"
        yield "      left = data[pos]"
        yield "      pos += 1"
        # What else such a head says, up to a map without end, is not a count of entries.
        yield "    elif left > 23:"
        yield f"      return {fallback}"
    yield f"    if left == {len(plan.fields)}:"
    yield from (f"      {line}" for line in _decode_all(plan, fallback))
    yield "    else:"
    yield from (f"      {line}" for line in _decode_some(plan))
    yield "      if left:"
    yield f"        return {fallback}"
    yield f"    if {is_bad}:"
    yield f"      return {fallback}"
    yield "  except (IndexError, UnicodeDecodeError, error, DecodeError):"
    yield f"    return {fallback}"
    yield "  obj = NEW(CLS)"
    for field in plan.fields:
        yield f"  obj.{field.attribute} = v{int(field.index)}"
    yield f"  return {result}"


def _decode_all(plan: StructPlan, fallback: str) -> Iterator[str]:
    """Every field is there, and in its place: what a new object looks like."""
    if not plan.fields:
        yield "pass"
    for field in plan.fields:
        tag = int(field.tag)
        if tag < 24:
            yield f"if data[pos] != {tag}: return {fallback}"
        else:
            yield f"if data[pos] != 24 or data[pos + 1] != {tag}: return {fallback}"
        yield from _decode_value(field)


def _decode_some(plan: StructPlan) -> Iterator[str]:
    """Some fields are there: what a partial update looks like."""
    if not plan.fields:
        yield "pass"
        return
    yield "".join(f"v{int(field.index)} = " for field in plan.fields) + "None"
    yield "tag = data[pos] if left > 0 else 0"
    for field in plan.fields:
        tag = int(field.tag)
        if tag < 24:
            yield f"if tag == {tag}:"
        else:
            yield f"if tag == 24 and data[pos + 1] == {tag}:"
        for line in _decode_value(field):
            yield "  " + line
        yield "  left -= 1"
        yield "  tag = data[pos] if left > 0 else 0"


def _decode_value(field: FieldPlan) -> Iterator[str]:
    """Source that reads the value behind the tag at `pos`, and moves `pos` behind it."""
    index, kind, spec = int(field.index), int(field.kind), field.value
    name, at = f"v{index}", len(field.head)
    if kind in _INTEGERS and spec.low >= 0:
        yield f"b = data[pos + {at}]"
        yield f"if b < 24: {name} = b; pos += {at + 1}"
        yield f"elif b == 24: {name} = data[pos + {at + 1}]; pos += {at + 2}"
        for info, width, code in ((25, 2, "H"), (26, 4, "I"), (27, 8, "Q")):
            if info <= spec.info_max:
                yield f"elif b == {info}:"
                yield f"  {name}, = read_{code}(data, pos + {at + 1})"
                yield f"  pos += {at + 1 + width}"
    elif kind in _DOUBLES:
        yield f"if data[pos + {at}] == 0xFB:"
        yield f"  {name}, = read_d(data, pos + {at + 1})"
        yield f"  pos += {at + 9}"
    elif kind == Kind.STRING:
        yield f"b = data[pos + {at}] - 0x60"
        yield "if 0 <= b < 24:"
        yield f"  pos += {at + 1}"
        yield f"  {name} = str(data[pos:pos + b], 'utf-8')"
        yield "  pos += b"
    elif kind == Kind.STRUCT:
        yield f"{name}, pos = NESTED{index}.decode_from(data, pos + {at})"
        return
    else:
        yield f"{name}, pos = decode_value(PLAN, F{index}, data, pos + {at})"
        return
    yield f"else: {name}, pos = decode_value(PLAN, F{index}, data, pos + {at})"
