"""Values of a `where`: the value of a token for a field of each kind, and errors."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID

import pytest

import skerry
from skerry.errors import FilterError
from skerry.protocol.access.where.lexer import scan
from skerry.protocol.access.where.values import Meaning, field_named

All = skerry.define_types(
    """
enum Color { 1: red, 20: green, 3: null }
struct All {
    1: [key] uint8 small;
    2: int64 large;
    3: float32 narrow;
    4: float64 wide;
    5: string name;
    6: bool active;
    7: Color color;
    8: uuid id;
    9: timepoint seen;
    10: duration age;
    11: steady_timepoint up;
    12: property_set mask;
    13: string class;
    14: float16 half;
}
"""
).All
TYPE = All.descriptor


def value(field: str, text: str) -> Any:
    return Meaning(text, TYPE).value(TYPE.field(field), scan(text)[0])


def bound(field: str, operator: str, text: str) -> tuple[str, Any]:
    return Meaning(text, TYPE).bound(TYPE.field(field), operator, scan(text)[0])


@pytest.mark.parametrize(
    ("field", "text", "meant"),
    [
        ("small", "255", 255),
        ("small", "2.0", 2),
        ("large", "-9223372036854775808", -(2**63)),
        ("large", "1e3", 1000),
        ("wide", "5", 5.0),
        ("wide", "-.5", -0.5),
        ("narrow", "0.1", 0.10000000149011612),
        ("narrow", "1e300", 1e300),
        ("half", "0.1", 0.0999755859375),
        ("name", "'it''s'", "it's"),
        ("name", '"Maria"', "Maria"),
        ("active", "TRUE", True),
        ("active", "false", False),
        ("color", "red", 1),
        ("color", "'green'", 20),
        ("color", "null", 3),
        ("id", "'00000000-0000-0000-0000-000000000001'", UUID(int=1)),
        ("seen", "'1970-01-01T00:01:00Z'", 60.0),
        ("seen", "'1970-01-01T01:00:00.5+01:00'", 0.5),
        ("seen", "1.5", 1.5),
        ("age", "90", 90.0),
        ("age", "'1.5 min'", 90.0),
        ("age", "'-20ms'", -0.02),
        ("age", "'2h'", 7200.0),
        ("age", "'1 d'", 86400.0),
        ("up", "3", 3.0),
        ("mask", "6", 6),
    ],
)
def test_the_value_of_a_token_depends_on_the_kind_of_its_field(
    field: str, text: str, meant: object
) -> None:
    found = value(field, text)
    assert found == meant
    assert type(found) is type(meant)


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("small", "256", "out of the range of small, 0 to 255"),
        ("small", "-1", "out of the range of small, 0 to 255"),
        ("small", "1.5", "never equals"),
        ("small", "'1'", "small is a number"),
        ("small", "9" * 5000, "too many digits"),
        ("small", "1e999", "out of the range"),
        ("wide", "1e999", "out of the range of float64"),
        ("wide", "9" * 400, "out of the range of float64"),
        ("wide", "name", "`name` is a field"),
        ("wide", "class_", "`class_` is a field"),
        ("wide", "other", "`other` is not a value for wide"),
        ("wide", "NULL", "nothing equals null"),
        ("name", "Maria", "`Maria` is not a value for name"),
        ("name", "5", "name is text"),
        ("name", "'\ud800'", "surrogate"),
        ("active", "'true'", "active is a bool"),
        ("active", "1", "active is a bool"),
        ("active", "name", "`name` is a field"),
        ("color", "1", "by the name of an element"),
        ("color", "gren", "Color has no element gren"),
        ("color", "name", "`name` is a field"),
        ("color", "'blue'", "Color has no element blue"),
        ("id", "'1'", "id is a uuid"),
        ("id", "5", "id is a uuid"),
        ("seen", "'2026-11-15'", "with a zone"),
        ("seen", "'yesterday'", "with a zone"),
        ("age", "'5 weeks'", "age is a duration"),
        ("up", "'5 s'", "up is a number"),
        ("mask", "4294967296", "out of the range of mask"),
    ],
)
def test_tokens_that_are_not_values_are_refused(field: str, text: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        value(field, text)
    assert message in caught.value.problems[0].message
    assert caught.value.problems[0].file == "where"


@pytest.mark.parametrize(
    ("operator", "text", "meant"),
    [
        ("<", "2.5", ("<=", 2)),
        ("<=", "2.5", ("<=", 2)),
        (">", "2.5", (">", 2)),
        (">=", "2.5", (">", 2)),
        (">", "-2.5", (">", -3)),
        ("<", "3", ("<", 3)),
        (">=", "3.0", (">=", 3)),
    ],
)
def test_whole_numbers_are_ordered_against_others(
    operator: str, text: str, meant: tuple[str, int]
) -> None:
    assert bound("large", operator, text) == meant


def test_other_fields_are_ordered_as_written() -> None:
    assert bound("wide", "<", "2.5") == ("<", 2.5)
    with pytest.raises(FilterError, match="out of the range"):
        bound("small", "<", "-0.5")


def test_patterns_are_checked_at_their_position() -> None:
    meaning = Meaning("'a\\'", TYPE)
    with pytest.raises(FilterError) as caught:
        meaning.pattern(TYPE.field("name"), scan("'a\\'")[0])
    assert caught.value.problems[0].column == 1
    assert meaning.pattern(TYPE.field("name"), scan("'a%'")[0]) == "a%"


def test_a_field_is_found_by_its_name_in_the_type_and_in_python() -> None:
    assert field_named(TYPE, "class") is field_named(TYPE, "class_") is TYPE.field("class")
    assert field_named(TYPE, "other") is None


def test_the_error_about_an_unknown_field_has_a_guess_or_all_names() -> None:
    for text, hint in {"nam": "did you mean name?", "qqq": "it has small, large"}.items():
        with pytest.raises(FilterError, match=f"All has no field {text}") as caught:
            Meaning(text, TYPE).field(scan(text)[0])
        assert str(caught.value.hint).startswith(hint)


def test_a_number_is_rounded_to_the_precision_of_its_field() -> None:
    stored = All.decode(All(small=1, narrow=0.1).encode()).narrow
    assert stored == value("narrow", "0.1")
    assert not math.isclose(value("narrow", "0.1"), 0.1, rel_tol=1e-9)
