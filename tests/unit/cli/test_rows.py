"""Objects and events as commands show them."""

from __future__ import annotations

from typing import Any

import skerry
from skerry.cli.rows import event_row, event_text, key_text, object_row
from skerry.client.core.events import ObjectInfo

TYPES = skerry.define_types(
    "struct One { 1: [key] string id; 2: float32 x; }"
    " struct Two { 1: [key] int32 a; 2: [key] int32 b; }"
    " struct None_ { 1: int32 a; }"
)


def info(modified: float) -> ObjectInfo:
    return ObjectInfo(
        last_operation="update",
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
    assert row == {"id": "a", "x": 0.5, "_key": "a", "_sender": 5, "_age_s": 0.0}
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
