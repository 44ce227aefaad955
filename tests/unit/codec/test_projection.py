"""Encoded objects as another definition of their type reads them."""

from __future__ import annotations

import pytest

from skerry.codec import pieces
from skerry.codec.pieces import LARGE_BYTES, split
from skerry.codec.projection import project
from skerry.objects.base import codec_of
from skerry.objects.typeset import define_types


def test_an_object_is_given_as_another_definition_reads_it() -> None:
    text = """
    struct Place {{ {place} }}
    struct Boat {{
        1: [key] uint32 id; 2: {crew} crew; 3: Place at; 4: vector<Place> route; {more}
    }}
    """
    wide = define_types(
        text.format(place="1: float64 x; 2: uint32 depth;", crew="uint32", more="5: string s;")
    )
    narrow = define_types(text.format(place="1: float32 x; 2: uint8 depth;", crew="uint8", more=""))
    data = wide.Boat(
        id=300,
        crew=300,
        at=wide.Place(x=0.1, depth=300),
        route=[wide.Place(x=0.5, depth=3), wide.Place(x=1e300)],
        s="more",
    ).encode()
    found, present = project(codec_of(narrow.Boat).plan, data, narrow.Boat.descriptor.mask)
    read = narrow.Boat.decode(found)
    assert (read.id, read.crew, read.at.depth) == (300, None, None)
    assert read.at.x == pytest.approx(0.1, rel=1e-6)
    assert read.route == [narrow.Place(x=0.5, depth=3), narrow.Place()]
    assert present == 0b11010
    assert found == read.encode()
    found, present = project(codec_of(narrow.Boat).plan, data, 0b1010)
    assert present == 0b1010
    assert narrow.Boat.decode(found).route is None


def test_a_vector_with_an_element_that_cannot_be_read_is_left_out() -> None:
    text = "struct Boat {{ 1: [key] uint32 id; 2: vector<{}> crews; }}"
    wide, narrow = (define_types(text.format(kind)).Boat for kind in ("uint32", "uint8"))
    plan = codec_of(narrow).plan
    assert project(plan, wide(id=1, crews=[1, 300]).encode(), -1)[1] == 0b10
    assert project(plan, wide(id=1, crews=[1, 3]).encode(), -1)[1] == 0b110


def test_a_float_of_a_key_is_not_rounded() -> None:
    text = "struct Boat {{ 1: [key] {} id; }}"
    wide, narrow = (define_types(text.format(kind)).Boat for kind in ("float64", "float32"))
    assert project(codec_of(narrow).plan, wide(id=0.5).encode(), -1) == (b"\xa0", 0)


def test_a_large_object_is_projected_once_for_equal_definitions() -> None:
    text = "struct Boat {{ 1: [key] uint32 id; 2: vector<{}> crews; 3: string s; {} }}"
    wide = define_types(text.format("uint32", "4: bool is_new;")).Boat
    plans = [
        codec_of(define_types(text.format(kind, "")).Boat).plan for kind in ("uint32", "uint8")
    ]
    data = wide(id=1, crews=[300] * LARGE_BYTES, s="s", is_new=True).encode()
    expected = [project(plan, data, -1) for plan in plans]
    split(codec_of(wide).plan, data, 0)
    for mask in (-1, 0b10):
        for plan, (whole, present) in zip(plans, expected, strict=True):
            found = project(plan, data, mask)
            assert project(plan, data, mask)[0] is found[0]
            if mask == -1:
                assert found == (whole, present)
            else:
                assert found == (wide(id=1).encode(), 0b10)
    known = pieces.recent_pieces(data)
    assert known is not None
    assert len(known.projections) == 4
    project(plans[0], data, 0b1000)
    assert len(known.projections) == 4, "only the last ones are kept"
