"""Shared by the tests of the codec: two codecs to compare, and a type with every kind of field."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import pytest

from skerry.codec.codec import Codec
from skerry.errors import CodecError
from skerry.objects.typeset import TypeSet, define_types
from tests.plan_walk import PlanWalk

EVERYTHING = """
enum Color {
    1: red,
    2: green = 10,
    200: blue
}

struct Inner {
    1: bool flag;
    2: string label;
    30: uint8 high;
}

struct Everything {
    1: bool b;
    2: int8 i8;
    3: int16 i16;
    4: int32 i32;
    5: int64 i64;
    6: uint8 u8;
    7: uint16 u16;
    8: uint32 u32;
    9: uint64 u64;
    10: float16 f16;
    11: float32 f32;
    12: float64 f64;
    13: string s;
    14: bytes data;
    15: uuid id;
    16: timepoint tp;
    17: steady_timepoint stp;
    18: duration dur;
    19: property_set ps;
    20: any any;
    21: instance_ref ref;
    22: instance_ref<Keyed> keyed;
    23: Color color;
    24: Inner inner;
    25: vector<uint32> numbers;
    26: vector<Inner> inners;
    27: vector<Color> colors;
    28: vector<string> texts;
    31: vector<float64> floats;
    29: vector<bool> bools;
    30: vector<bytes> blobs;
}

struct Keyed {
    3: string text;
    7: [key] string second;
    2: [key] uint32 first;
    1: float64 value;
}

struct Single {
    1: [key] uint32 id;
}

struct Singleton {
    1: string text;
    2: uint32 count;
}
"""


@pytest.fixture(scope="session")
def types() -> TypeSet:
    return define_types(EVERYTHING)


@pytest.fixture(params=[Codec, PlanWalk], ids=["hot loops", "plan walk"])
def make_codec(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Makes the codec of a class: the one in use, and the one that is compared with it."""
    index = [Codec, PlanWalk].index(request.param)
    return lambda cls: codecs_of(cls)[index]


@pytest.fixture
def same() -> Callable[..., Any]:
    """Calls a method of both codecs of a class. The results or the errors must be equal."""
    return outcome_of_both


def outcome_of_both(cls: Any, method: str, *arguments: Any) -> Any:
    hot_loops, plan_walk = (outcome(codec, method, *arguments) for codec in codecs_of(cls))
    assert hot_loops == plan_walk
    return hot_loops


@lru_cache(maxsize=64)
def codecs_of(cls: Any) -> tuple[Codec, PlanWalk]:
    return Codec(cls._codec.plan), PlanWalk(cls._codec.plan)


def outcome(codec: Any, method: str, *arguments: Any) -> Any:
    """The result, or the message of the error."""
    try:
        return getattr(codec, method)(*arguments)
    except CodecError as error:
        return f"{type(error).__name__}: {error}"
