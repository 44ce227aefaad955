"""The codec of one struct by its tables: each call does what the functions it stands for do."""

from __future__ import annotations

from skerry.codec import decoder, encoder, pieces
from skerry.codec.tables import TableCodec
from skerry.objects.typeset import TypeSet


def test_calls_are_those_of_the_functions(types: TypeSet) -> None:
    plan = types.Keyed._codec.plan
    codec = TableCodec(plan)
    obj = types.Keyed(first=1, second="s", text="t", value=0.5)
    data = obj.encode()
    parts = codec.split(data)
    assert codec.plan is plan
    assert codec.encode(obj) == encoder.encode(plan, obj, -1) == data
    assert codec.encode_only(obj, 8) == encoder.encode(plan, obj, 8) == b"\xa1\x03at"
    assert codec.encode_key(obj) == encoder.encode_key(plan, obj) == b"\x82\x01as"
    assert codec.decode(data) == decoder.decode(plan, data) == obj
    assert codec.decode_from(b"\xff" + data, 1) == (obj, len(data) + 1)
    assert codec.split(b"\xff" + data, 1).stop == len(data) + 1
    assert codec.key(data) == codec.key_of(parts) == pieces.canonical_key(plan, parts)
    assert codec.normalize(data) == pieces.normalize(plan, data) == data
    assert codec.merge(data, data, 8) == pieces.merge(plan, data, data, 8) == data


def test_objects_are_of_the_class_of_the_plan(types: TypeSet) -> None:
    codec = TableCodec(types.Single._codec.plan)
    assert type(codec.decode(b"\xa0")) is types.Single
