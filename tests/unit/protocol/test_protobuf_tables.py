"""Message classes from tables."""

from __future__ import annotations

from skerry.protocol.protobuf_tables import message_classes


def test_classes_are_made_of_tables() -> None:
    classes = message_classes(
        "tests.tables",
        {"Inner": ("1 string text",), "Outer": ("1 Inner* parts", "2 Kind kind", "3 int32 n")},
        {"Kind": {"ONE": 1, "TWO": 2}},
        syntax="proto2",
    )
    made = classes["Outer"](kind=2)
    made.parts.add(text="a")
    data = made.SerializeToString()
    assert data == b"\x0a\x03\x0a\x01a\x10\x02"
    found = classes["Outer"].FromString(data)
    assert [part.text for part in found.parts] == ["a"]
    assert not found.HasField("n")
