"""Filters against a naive reading of them on decoded objects, for any type, object and condition.

The naive side knows nothing of bytes, links or slots: it looks at the fields of an object as a
program would.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.engine.delivery.query import compile_filter
from skerry.errors import FilterError
from skerry.objects.base import Struct, build
from skerry.objects.classes import class_of
from skerry.objects.internal import internal_class
from skerry.objects.times import to_datetime, to_timepoint
from skerry.protocol.access.where.filters import make_filter, uses_like
from skerry.protocol.access.where.like_pattern import LikePattern
from skerry.schema.check import define
from skerry.schema.model import (
    INTEGER_RANGES,
    EnumType,
    Field,
    Kind,
    NamedType,
    StructType,
)
from tests.strategies import enum_types, objects_of, struct_types, values_of

pytestmark = pytest.mark.slow

FLOATS = (Kind.FLOAT16, Kind.FLOAT32, Kind.FLOAT64, Kind.DURATION, Kind.STEADY_TIMEPOINT)
COMPARABLE = (
    *INTEGER_RANGES,
    *FLOATS,
    Kind.BOOL,
    Kind.STRING,
    Kind.UUID,
    Kind.ENUM,
    Kind.TIMEPOINT,
)
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


RICH_TEXT = """
enum Color { 1: red, 2: green, 300: blue }
struct Rich {
    5: [key] uint64 number;
    1: bool flag;
    2: int8 small;
    3: int64 large;
    4: float16 half;
    6: float32 narrow;
    7: float64 wide;
    8: [key] string name;
    9: string like;
    10: uuid id;
    11: timepoint seen;
    12: property_set mask;
    13: duration age;
    14: steady_timepoint up;
    16: Color color;
    31: bytes data;
    28: vector<string> texts;
}
"""
RICH = next(type_ for type_ in define(RICH_TEXT).types if isinstance(type_, StructType))


@dataclass(frozen=True)
class Asked:
    """A condition as text, what it means for an object, and the values it names by their field."""

    text: str
    holds: Callable[[Any], bool]
    named: tuple[tuple[str, Any], ...] = ()


# -- conditions


def attribute(field: Field) -> Callable[[Any], Any]:
    def get(obj: Any) -> Any:
        value = getattr(obj, type(obj)._attributes[field.name])
        if isinstance(value, str):
            # Text is ordered as its bytes are.
            return value.encode("utf-8", "surrogateescape")
        return value

    return get


def written(value: Any) -> str:
    """A value as people write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"'{value}'"


@st.composite
def literals(draw: st.DrawFn, field: Field) -> tuple[str, Any, tuple[str, Any]]:
    """A value as text, what it is compared as, and what a field would hold for it."""
    text, value = draw(_literals(field))
    held = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    return text, value, (field.name, held)


@st.composite
def _literals(draw: st.DrawFn, field: Field) -> tuple[str, Any]:
    kind = field.type.kind
    value = draw(values_of(field.type).filter(lambda value: value == value))
    if isinstance(field.type, EnumType):
        return draw(st.sampled_from([value.label, written(value.label)])), value
    if kind == Kind.TIMEPOINT:
        value = draw(st.integers(-(10**9), 4 * 10**9)) + draw(st.integers(0, 999)) / 1000
        text = to_datetime(value).isoformat()
        return written(text), to_timepoint(text)
    if isinstance(value, float):
        value = value if math.isfinite(value) else 0.5
        return written(value), value
    if isinstance(value, str):
        return written(value), value.encode("utf-8", "surrogateescape")
    return written(int(value) if kind == Kind.PROPERTY_SET else value), value


@st.composite
def conditions(draw: st.DrawFn, struct: StructType) -> Asked:
    """One comparison with a field of the type."""
    field = draw(st.sampled_from(struct.fields))
    get = attribute(field)
    name = draw(st.sampled_from([f'"{field.name}"', *plain_names(field.name)]))
    kind = field.type.kind
    forms = ["null"]
    if kind in COMPARABLE:
        forms += ["compare", "compare", "in"]
    if kind in COMPARABLE and kind not in (Kind.BOOL, Kind.ENUM):
        forms.append("between")
    if kind == Kind.STRING:
        forms.append("like")
    form = draw(st.sampled_from(forms))
    denied = draw(st.booleans())
    word = cased(draw, " not" if denied else "")
    if form == "null":
        text = f"{name} {cased(draw, 'is')}{word} {cased(draw, 'null')}"
        return Asked(text, lambda obj: (get(obj) is None) != denied)
    if form == "compare":
        ordered = kind not in (Kind.BOOL, Kind.ENUM)
        symbol = draw(st.sampled_from(list(COMPARISONS)[: None if ordered else 4]))
        text, value, named = draw(literals(field))
        compare = COMPARISONS[symbol]
        return Asked(
            f"{name}{symbol}{text}",
            lambda obj: get(obj) is not None and compare(get(obj), value),
            (named,),
        )
    if form == "like":
        pattern = draw(patterns())
        expression = re.compile(naive_expression(pattern), re.DOTALL)
        return Asked(
            f"{name}{word} {cased(draw, 'like')} {written(pattern)}",
            lambda obj: (
                get(obj) is not None
                and (expression.fullmatch(getattr(obj, text_name(obj, field))) is not None)
                != denied
            ),
        )
    if form == "between":
        low_text, low, low_named = draw(literals(field))
        high_text, high, high_named = draw(literals(field))
        return Asked(
            f"{name}{word} {cased(draw, 'between')} {low_text} and {high_text}",
            lambda obj: get(obj) is not None and (low <= get(obj) <= high) != denied,
            (low_named, high_named),
        )
    listed = draw(st.lists(literals(field), min_size=1, max_size=4))
    values = [value for _, value, _ in listed]
    return Asked(
        f"{name}{word} {cased(draw, 'in')} ({', '.join(text for text, _, _ in listed)})",
        lambda obj: get(obj) is not None and (get(obj) in values) != denied,
        tuple(named for _, _, named in listed),
    )


def plain_names(name: str) -> list[str]:
    words = {"and", "or", "not", "in", "between", "like", "is", "null"}
    return [] if name.lower() in words else [name]


def cased(draw: st.DrawFn, word: str) -> str:
    return draw(st.sampled_from([word, word.upper()]))


def text_name(obj: Any, field: Field) -> str:
    name: str = type(obj)._attributes[field.name]
    return name


def patterns() -> st.SearchStrategy[str]:
    piece = st.sampled_from(["%", "_", "a", "b", "\\%", "\\_", "\\\\", "é", "."])
    return st.lists(piece | st.characters(codec="utf-8").map(escaped), max_size=6).map("".join)


def escaped(character: str) -> str:
    return "\\" + character if character in "%_\\" else character


def naive_expression(pattern: str) -> str:
    pieces = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return "".join(wild.get(piece) or re.escape(piece[-1]) for piece in pieces)


def wheres(struct: StructType) -> st.SearchStrategy[Asked]:
    """Conditions of any shape."""
    return st.recursive(conditions(struct), joined, max_leaves=8)


def joined(inner: st.SearchStrategy[Asked]) -> st.SearchStrategy[Asked]:
    several = st.lists(inner, min_size=2, max_size=3)
    return several.map(all_of) | several.map(any_of) | inner.map(none_of)


def all_of(parts: list[Asked]) -> Asked:
    text = " and ".join(f"({part.text})" for part in parts)
    return Asked(text, lambda obj: all(part.holds(obj) for part in parts), named_in(parts))


def any_of(parts: list[Asked]) -> Asked:
    text = " or ".join(f"({part.text})" for part in parts)
    return Asked(text, lambda obj: any(part.holds(obj) for part in parts), named_in(parts))


def none_of(part: Asked) -> Asked:
    return Asked(f"not ({part.text})", lambda obj: not part.holds(obj), part.named)


def named_in(parts: list[Asked]) -> tuple[tuple[str, Any], ...]:
    return tuple(pair for part in parts for pair in part.named)


Question = tuple[StructType, Asked, list[Struct]]


@st.composite
def questions(draw: st.DrawFn, types: st.SearchStrategy[StructType]) -> Question:
    """A type, a condition on its objects, and some of them."""
    struct = draw(types)
    asked = draw(wheres(struct))
    return struct, asked, draw(st.lists(near_objects(struct, asked), min_size=1, max_size=4))


def near_objects(struct: StructType, asked: Asked) -> st.SearchStrategy[Struct]:
    """Objects that often have just the values that a condition names."""
    values = []
    for field in struct.fields:
        named = [value for name, value in asked.named if name == field.name]
        # Where nothing is asked, one value is as good as another.
        several = st.none() | values_of(field.type)
        values.append(st.sampled_from(named) | several if named else several)
    return st.tuples(*values).map(lambda drawn: build(class_of(struct), drawn))


@st.composite
def any_types(draw: st.DrawFn) -> StructType:
    known: tuple[NamedType, ...] = (draw(enum_types("Color")),)
    return draw(struct_types("Thing", known))


# -- what must hold


@settings(max_examples=300, deadline=None)
@given(questions(st.just(RICH)))
def test_bytes_match_as_objects_do(question: Question) -> None:
    check(*question)


@settings(max_examples=50, deadline=None)
@given(questions(any_types()))
def test_bytes_match_as_objects_do_for_any_type(question: Question) -> None:
    check(*question)


def check(struct: StructType, asked: Asked, objects: list[Struct]) -> None:
    made = make_filter(struct, asked.text)
    travelled = internal_class("DotsFilter").decode(made.encode())
    assert travelled.encode() == made.encode()
    assert uses_like(travelled) == uses_like(made)
    query = compile_filter(travelled, struct)
    for obj in objects:
        payload = obj.encode()
        naive = asked.holds(class_of(struct).decode(payload))
        assert query.matches(payload) is naive, f"{asked.text} on {obj!r}"


@settings(max_examples=500, deadline=None)
@given(st.text("ab%_", max_size=8), st.text("ab", max_size=10))
def test_patterns_fit_as_regular_expressions_do(pattern: str, text: str) -> None:
    naive = re.fullmatch(naive_expression(pattern), text) is not None
    assert LikePattern(pattern).matches(text.encode()) is naive


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_projections_keep_the_chosen_fields_and_the_key(data: st.DataObject) -> None:
    struct = data.draw(any_types())
    names = data.draw(st.sets(st.sampled_from([field.name for field in struct.fields])))
    obj = data.draw(objects_of(struct))
    attributes = data.draw(st.integers(0, 2**32 - 1))
    query = compile_filter(make_filter(struct, fields=names), struct)
    kept = {field.name for field in struct.fields if field.is_key or field.name in names}
    values = type(obj)._values(obj)
    wanted = [
        value if field.name in kept else None
        for field, value in zip(struct.fields, values, strict=True)
    ]
    payload, left = query.project(obj.encode(), attributes)
    assert payload == build(class_of(struct), wanted).encode()
    mask = sum(1 << field.tag for field in struct.fields if field.name in kept)
    assert query.mask == mask
    assert left == (attributes if mask == struct.mask else attributes & mask)
    assert query.matches(payload)


@settings(max_examples=200, deadline=None)
@given(questions(st.just(RICH)), st.randoms(use_true_random=False))
def test_a_damaged_filter_is_refused_or_works(question: Question, rng: Random) -> None:
    struct, asked, objects = question
    made = make_filter(struct, asked.text)
    for node in made.predicate.nodes:
        damage(node, rng)
    try:
        query = compile_filter(made, struct)
    except FilterError:
        return
    for obj in objects:
        assert query.matches(obj.encode()) in (True, False)


def damage(node: Any, rng: Random) -> None:
    """Give one part of a node to another meaning."""
    ops = list(internal_class("DotsCompareOp"))
    value = internal_class("DotsPredicateValue")
    if node.leaf is None:
        node.arity = rng.choice([None, 0, 1, 2, 3, node.arity, node.arity])
        return
    choice = rng.randrange(5)
    if choice == 0:
        node.leaf.propertyTag = rng.choice([0, 1, 2, 3, 31, 32, None])
    elif choice == 1:
        node.leaf.op = rng.choice([*ops, None])
    elif choice == 2:
        slots = {"stringVal": "a%", "floatVal": 0.5, "intList": [1], "floatList": [math.nan]}
        slot = rng.choice(list(slots))
        node.leaf.value = value(**{slot: slots[slot]})


@settings(max_examples=300, deadline=None)
@given(st.text("ab<>=!()'\",.% \n_-0189andorisnulkitew", max_size=40))
def test_any_text_compiles_or_is_refused_with_its_place(text: str) -> None:
    struct = internal_class("DotsClient").descriptor
    try:
        made = make_filter(struct, text)
    except FilterError as error:
        problem = error.problems[0]
        lines = text.split("\n")
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
        return
    compile_filter(made, struct)
