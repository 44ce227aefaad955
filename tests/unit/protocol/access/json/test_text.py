"""Texts of strangers: read when they are JSON within bounds, refused when not."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import DecodeError
from skerry.limits import JSON_DEPTH_MAX, JSON_VALUE_COUNT_MAX
from skerry.protocol.access.json.text import parse_text

PLAIN: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.slow
@given(PLAIN)
def test_any_json_is_read(plain: Any) -> None:
    assert parse_text(json.dumps(plain).encode()) == plain


@given(st.binary(max_size=40) | st.text(alphabet='[]{}",:\\0e-infa ', max_size=40).map(str.encode))
def test_any_other_input_is_refused(data: bytes) -> None:
    try:
        parse_text(data)
    except DecodeError as error:
        assert error.type_name == "JSON"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[",
        b"[1,]",
        b"{'a': 1}",
        b"[1] [2]",
        b"[infinite]",
        b"[+inf]",
        b"[--inf]",
        b"[inf inf]",
        b"{inf: 1}",
        b'"\xff"',
        "[1]".encode("utf-16"),
        b"\xef\xbb\xbf[1]",
        b"9" * 5000,
    ],
)
def test_text_that_is_not_json_is_refused(text: bytes) -> None:
    with pytest.raises(DecodeError, match="JSON: not JSON"):
        parse_text(text)


def test_a_name_may_not_be_there_twice() -> None:
    with pytest.raises(DecodeError, match="b is used twice"):
        parse_text(b'{"a": 1, "b": 2, "b": 2}')
    many = ", ".join(f'"{number}": 0' for number in range(20_000))
    with pytest.raises(DecodeError, match="last is used twice"):
        parse_text(f'{{{many}, "last": 1, "last": 2}}'.encode())


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_nesting_has_a_bound(opening: str, closing: str) -> None:
    def nested(depth: int) -> bytes:
        return f"{opening * depth}0{closing * depth}".encode()

    assert parse_text(nested(JSON_DEPTH_MAX))
    with pytest.raises(DecodeError, match=f"nested deeper than {JSON_DEPTH_MAX}"):
        parse_text(nested(JSON_DEPTH_MAX + 1))
    with pytest.raises(DecodeError, match=f"nested deeper than {JSON_DEPTH_MAX}"):
        parse_text(opening.encode() * 1_000_000)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert parse_text(b"[" + b"[]," * JSON_DEPTH_MAX + b"[]]") == [[]] * (JSON_DEPTH_MAX + 1)


@pytest.mark.slow
def test_the_count_of_values_has_a_bound() -> None:
    most = b"[" + b"0," * (JSON_VALUE_COUNT_MAX - 1) + b"0]"
    assert len(parse_text(most)) == JSON_VALUE_COUNT_MAX
    with pytest.raises(DecodeError, match=f"{JSON_VALUE_COUNT_MAX + 1} values"):
        parse_text(b"[0," + most[1:])
    with pytest.raises(DecodeError, match="values, the limit is"):
        parse_text(b"[" + b"[]," * (JSON_VALUE_COUNT_MAX // 2) + b"[]]")


def test_the_content_of_strings_does_not_count() -> None:
    strange = "[" * (JSON_DEPTH_MAX + 1) + '\\"{\\' + "," * (JSON_VALUE_COUNT_MAX + 1)
    assert parse_text(json.dumps([strange]).encode()) == [strange]
    with pytest.raises(DecodeError, match="nested deeper"):
        parse_text(b'["\\\\", ' + b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX + b"]")


def test_numbers_of_cpp_are_read() -> None:
    text = b'{ "a": inf, "b": -inf, "c": [ nan, -nan ], "inf": "nan, \\" -inf" }'
    plain = parse_text(text)
    assert plain["a"] == math.inf
    assert plain["b"] == -math.inf
    assert [math.isnan(number) for number in plain["c"]] == [True, True]
    assert plain["inf"] == 'nan, " -inf'


@pytest.mark.parametrize(
    "text", ["inf", "Inf", "INF", "infinity", "Infinity", "INFINITY", "1e999", "1E+400"]
)
def test_an_infinity_is_read_in_every_spelling(text: str) -> None:
    assert parse_text(f"[{text}, -{text}]".encode()) == [math.inf, -math.inf]


@pytest.mark.parametrize("text", ["nan", "NaN", "NAN", "-nan", "-NaN"])
def test_a_nan_is_read_in_every_spelling(text: str) -> None:
    (number,) = parse_text(f"[ {text} ]".encode())
    assert math.isnan(number)
