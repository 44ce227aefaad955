"""JSON texts in steps: read as at once, refused as at once, and no step looks at much."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skerry.errors import DecodeError
from skerry.limits import JSON_DEPTH_MAX, JSON_PIECE_BYTES, JSON_VALUE_COUNT_MAX
from skerry.protocol.access.json.parser import JsonParser
from skerry.protocol.access.json.text import parse_text
from tests.unit.protocol.access.json.test_text import PLAIN

UNITS_PER_PIECE_MAX = 1 + 5 * JSON_PIECE_BYTES
TOKENS = ['"a"', '"a":', "[[[[[", "]]]]]", "1,2,", "null", "inf", "1.5e9", '"é😀"', "\\ud83d"]
TOKENS += ["\\ude00", "\\u00e9", "\\\\", "x" * 20, "\t" * 20, "\x00", *'[]{},:"\\ 1-ean']
SIZES = st.sampled_from([16, 17, 23, 40, JSON_PIECE_BYTES])


class Collected:
    """All values, put together again."""

    def __init__(self) -> None:
        self.root: list[Any] = []
        self.open: list[Any] = [self.root]
        self.most = 0

    def begin(self, name: str | None, *, is_list: bool) -> None:
        made: Any = [] if is_list else {}
        self.add([made] if name is None else {name: made})
        self.open.append(made)

    def add(self, values: Any) -> None:
        self.most = max(self.most, len(values))
        if isinstance(values, list):
            self.open[-1].extend(values)
        else:
            self.open[-1].update(values)

    def end(self) -> None:
        self.open.pop()


def parse(data: bytes, piece_bytes: int = JSON_PIECE_BYTES) -> Any:
    sink = Collected()
    parser = JsonParser(data, sink, piece_bytes=piece_bytes)
    while not parser.is_done:
        assert parser.step() <= UNITS_PER_PIECE_MAX
    assert sink.most <= piece_bytes
    (value,) = sink.root
    return value


@pytest.mark.slow
@given(PLAIN, st.booleans(), st.sampled_from([None, 1, 30]), SIZES)
def test_any_json_is_read(plain: Any, is_ascii: bool, indent: int | None, size: int) -> None:
    text = json.dumps(plain, ensure_ascii=is_ascii, indent=indent)
    assert repr(parse(text.encode(errors="surrogatepass"), size)) == repr(json.loads(text))


@pytest.mark.slow
@settings(max_examples=500)
@given(
    st.lists(
        st.sampled_from(TOKENS),
        max_size=25,
    ).map("".join),
    SIZES,
)
@example('"\\ud8de00\\n"', 16)
@example('["' + "é" * 30 + '"]', 17)
def test_a_text_is_read_or_refused_as_at_once(text: str, size: int) -> None:
    expected = found = "refused"
    try:
        expected = repr(parse_text(text.encode()))
    except DecodeError as error:
        assert error.type_name == "JSON"
    try:
        found = repr(parse(text.encode(), size))
    except DecodeError as error:
        assert error.type_name == "JSON"
    assert found == expected


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"", "the text ends too early, at byte 0"),
        (b"[1", "the text ends too early"),
        (b"[,1]", "a value is missing before a comma"),
        (b"[1,]", "a value is missing after a comma"),
        (b"{,}", "a value is missing before a comma"),
        (b'{"a": 1,}', "a value is missing after a comma"),
        (b"[1}", "expected ], at byte 2"),
        (b"[1] 2", "more text after the value, at byte 4"),
        (b'["' + b"x" * 9000, "a string that does not end"),
        (b'["' + b"x" * 9000 + b'\\x"]', "not JSON"),
        (b'{"' + b"x" * 9000 + b'" 1}', "a colon is missing"),
        (b"{" + b" " * 9000 + b"1: 2}", "not JSON"),
        (b"[" + b"9" * 9000 + b"]", "a number of more than 4300 characters"),
        (b'["' + b"\x80" * 9000 + b'"]', "not JSON"),
        (b'{"a": 1, "b": [' + b" " * 9000 + b'], "a": 2}', "a is used twice"),
        (b'{"a": 1, "b": [' + b" " * 9000 + b'], "b": 2}', "b is used twice"),
    ],
)
def test_errors_name_the_fault(text: bytes, fault: str) -> None:
    with pytest.raises(DecodeError) as caught:
        parse(text)
    assert fault in str(caught.value)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("size", [16, 100, JSON_PIECE_BYTES])
def test_nesting_has_a_bound(opening: str, closing: str, size: int) -> None:
    def nested(depth: int) -> bytes:
        return f"{opening * depth}0{closing * depth}".encode()

    assert parse(nested(JSON_DEPTH_MAX), size)
    with pytest.raises(DecodeError, match=f"nested deeper than {JSON_DEPTH_MAX}"):
        parse(nested(JSON_DEPTH_MAX + 1), size)
    with pytest.raises(DecodeError, match=f"nested deeper than {JSON_DEPTH_MAX}"):
        parse(opening.encode() * 100_000, size)


def test_the_names_of_an_object_have_a_bound() -> None:
    more = '"more": 1'
    names = [f'"n{number}": 1' for number in range(10_000)]
    assert len(parse(f"{{{', '.join(names)}}}".encode())) == 10_000
    with pytest.raises(DecodeError, match="more than 10000 names in one object"):
        parse(f"{{{', '.join([*names, more])}}}".encode())


@pytest.mark.slow
def test_the_count_of_values_has_a_bound() -> None:
    most = b"[" + b"0," * (JSON_VALUE_COUNT_MAX - 1) + b"0]"
    assert len(parse(most)) == JSON_VALUE_COUNT_MAX
    for text in (b"[0," + most[1:], b"[" + b"[]," * (JSON_VALUE_COUNT_MAX // 2) + b"[]]"):
        with pytest.raises(DecodeError, match=f"more than {JSON_VALUE_COUNT_MAX} values"):
            parse(text)
    strange = '["' + "[{," * (JSON_VALUE_COUNT_MAX // 2) + '"]'
    assert parse(strange.encode()) == [strange[2:-2]]


def test_numbers_of_cpp_are_read() -> None:
    text = b'{ "a": inf, "b": [ -inf' + b" " * 9000 + b', nan ], "inf": "nan, \\" -inf" }'
    plain = parse(text)
    assert plain["a"] == math.inf
    assert plain["b"][0] == -math.inf
    assert math.isnan(plain["b"][1])
    assert plain["inf"] == 'nan, " -inf'


@pytest.mark.parametrize(
    "text",
    [
        "[" + "1," * 50_000 + "1]",
        "[" + '{"a":{"b":[{"c":[1]}]}},' * 5_000 + "0]",
        "[" + "inf," * 20_000 + "0]",
        '["' + "\\n" * 50_000 + '"]',
        '["' + "é" * 50_000 + '"]',
        "[" + " " * 50_000 + "]",
        "{" + ",".join(f'"n{number}": 1' for number in range(10_000)) + "}",
    ],
)
def test_the_work_of_a_step_is_bounded(text: str) -> None:
    data = text.encode()
    parser = JsonParser(data, Collected())
    works = []
    while not parser.is_done:
        works.append(parser.step())
    assert max(works) <= UNITS_PER_PIECE_MAX
    assert len(works) >= len(data) // JSON_PIECE_BYTES
    # All of it is counted.
    assert sum(works) >= len(data) // 20
