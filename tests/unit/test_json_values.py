"""Values in JSON: the same rules for every kind, and one order whatever the process."""

from __future__ import annotations

import enum
import itertools
import json
import uuid
from dataclasses import dataclass

import pytest

from skerry.json_values import plain, visible


class Level(enum.Enum):
    LOW = "low"


@dataclass(frozen=True)
class Range:
    first: int
    names: frozenset[str]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Level.LOW, "low"),
        (b"\x01\xff", "01ff"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Range(1, frozenset({"b", "a"})), {"first": 1, "names": ["a", "b"]}),
        ({10, 9, 0.5}, [0.5, 9, 10]),
        ({b"\x02", b"\x01"}, ["01", "02"]),
        (frozenset({Level.LOW, None, 3, "x"}), [3, "x", "low", None]),
        ({frozenset({2, 1}), frozenset({3})}, [[1, 2], [3]]),
        ([(Level.LOW, {b"\x00"})], [["low", ["00"]]]),
    ],
)
def test_values_are_shown_as_json_has_them(value: object, expected: object) -> None:
    assert json.loads(json.dumps(value, default=plain)) == expected


def test_a_class_is_shown_by_its_name() -> None:
    assert "Range" in str(plain(Range))


def test_the_order_of_a_set_does_not_depend_on_how_it_was_made() -> None:
    items = ["a", 2, None, frozenset({1})]
    shown = {json.dumps(set(order), default=plain) for order in itertools.permutations(items)}
    assert shown == {'[2, "a", [1], null]'}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ölfaß 船 [x] \\", "Ölfaß 船 [x] \\"),
        ("a\tb\u00a0c\u200dd", "a\tb\u00a0c\u200dd"),
        ("\x1b[2J\x07\r\n", "\\x1b[2J\\x07\\r\\n"),
        ("\x7f\x9b1m", "\\x7f\\x9b1m"),
        ("\u202e\u2028\ud800\U000e0001", "\\u202e\\u2028\\ud800\\U000e0001"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown
