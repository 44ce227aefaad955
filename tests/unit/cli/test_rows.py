"""Objects and events as commands show them."""

from __future__ import annotations

import time
from typing import Any

import pytest

import skerry
from skerry.cli.parameters import WrongValue
from skerry.cli.rows import (
    RowFormat,
    event_row,
    event_text,
    iso_time,
    key_text,
    object_row,
    time_text,
)
from skerry.client.core.events import ObjectInfo

TYPES = skerry.define_types(
    "struct One { 1: [key] string id; 2: float32 x; }"
    " struct Two { 1: [key] int32 a; 2: [key] int32 b; }"
    " struct None_ { 1: int32 a; }"
)


def info(modified: float) -> ObjectInfo:
    return ObjectInfo(
        last_operation=skerry.Operation.UPDATE,
        created=0.0,
        created_from=4,
        modified=modified,
        modified_from=5,
        received=0.0,
    )


def test_key_is_a_value_or_a_list() -> None:
    assert object_row(TYPES.One(id="a"), info(0.0))["_key"] == "a"
    assert object_row(TYPES.Two(a=1, b=2), info(0.0))["_key"] == [1, 2]
    assert object_row(TYPES.None_(a=1), info(0.0))["_key"] == []
    assert key_text(TYPES.Two(a=1, b=2)) == "a=1, b=2"


def test_sender_is_the_last_publisher_and_age_is_never_negative() -> None:
    row = object_row(TYPES.One(id="a", x=0.5), info(9e12))
    added = {"_key": "a", "_sender": 5, "_time": 9e12, "_age_s": 0.0}
    assert row == {"id": "a", "x": 0.5, **added}
    assert object_row(TYPES.One(id="a"), info(0.0))["_age_s"] > 1e9


def test_events_are_shown_safely(live_node: Any) -> None:
    with skerry.connect(live_node.place) as space, space.subscribe("/...") as received_events:
        space.publish(TYPES.One(id="a\x1b[2J"))
        space.publish("/x", b"\x1b[2J")
        space.publish("/x", b"\xfe")
        ours = filter(_is_ours, iter(lambda: received_events.get(10), None))
        events = [next(ours) for _ in range(3)]
    assert [event_text(event) for event in events] == [
        'create One{ .id = "a\\u001b[2J" }',
        "/x \\x1b[2J",
        "/x fe",
    ]
    row = event_row(events[2])
    assert (row["data"], row["_subject"], row["_operation"]) == ("fe", "/x", "create")


def _is_ours(event: Any) -> bool:
    return bool(event.type_name in ("One", "SkerryBytes"))


def test_times_have_a_date_unless_it_is_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    noon = 1_763_208_000.25
    assert time_text(noon, noon + 60) == "12:00:00.250"
    assert time_text(noon, noon + 86_400) == "2025-11-15 12:00:00.250"
    assert time_text(1e300, noon) == "1e+300 s"
    assert iso_time(noon) == "2025-11-15T12:00:00.250Z"
    monkeypatch.undo()
    time.tzset()


def test_a_format_puts_values_into_a_line() -> None:
    shape = RowFormat("{_time} {id:>3}|{x:.1f}|{place.lat}|{ok}|{{}}\\t{_time:.0f}")
    shape.check(["id", "x", "place", "ok"])
    row = {"id": "a\x1b", "x": 2.26, "place": {"lat": 1}, "ok": True, "_time": 0.5}
    assert shape.line(row) == "1970-01-01T00:00:00.500Z a\\x1b|2.3|1|true|{}\t0"
    assert shape.line({}) == " ||||{}\t"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "'{': Single '{' encountered in format string"),
        ("{0}", "{0} is not the name of a value"),
        ("{}", "{} is not the name of a value"),
        ("{id!r}", "{id} is not the name of a value"),
        ("{id.__class__[0]}", "is not the name of a value"),
        ("{speeed}", "there is no value speeed"),
    ],
)
def test_a_wrong_format_is_a_usage_error(text: str, complaint: str) -> None:
    with pytest.raises(WrongValue) as raised:
        RowFormat(text).check(["id", "speed"])
    assert complaint in raised.value.message
    assert raised.value.hint


def test_a_value_that_does_not_fit_its_format_is_reported() -> None:
    with pytest.raises(WrongValue, match="with 'a'"):
        RowFormat("{id:.1f}").line({"id": "a"})
