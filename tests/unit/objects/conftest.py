"""Types that tests of objects share."""

from __future__ import annotations

import pytest

from skerry.objects.typeset import TypeSet, define_types

FLEET = """
/// Kind of vessel.
enum Kind {
    1: cargo,
    2: tanker = 80,     //< with liquids
    5: sailing = 36
}

struct Position {
    1: float64 lat;
    2: float64 lon;
}

/// A vessel at sea.
struct Vessel {
    1: [key, ctor] uint32 mmsi;
    2: string name;
    3: Kind kind;
    4: Position position;
    5: vector<Position> track;
    6: timepoint seen;
    7: [default="[]"] vector<uint8> flags;
}

struct Lock [cached=false] {
    2: [key] string area;
    1: [key] bool open;
}

struct Values {
    1: bool b;
    2: int64 i;
    3: uint64 u;
    4: float32 f;
    5: float64 d;
    6: string s;
    7: bytes data;
    8: uuid id;
    9: timepoint tp;
    10: steady_timepoint stp;
    11: duration dur;
    12: property_set ps;
    13: any any;
    14: instance_ref ref;
    15: Kind kind;
    16: vector<Kind> kinds;
    17: float16 h;
    18: instance_ref<Vessel> vessel;
    19: vector<uuid> ids;
}
"""


@pytest.fixture(scope="session")
def types() -> TypeSet:
    return define_types(FLEET)
