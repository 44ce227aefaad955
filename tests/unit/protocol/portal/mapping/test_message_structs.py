"""Structs and objects of messages of Protocol Buffers."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st

from skerry.errors import DecodeError, EncodeError, SchemaCheckError
from skerry.limits import TYPE_DEPTH_MAX
from skerry.protocol.portal.mapping import protobuf_types
from skerry.protocol.portal.mapping.message_structs import MessageObjects, MessageStructs
from skerry.protocol.portal.mapping.protobuf_types import (
    PROTOBUF_FILE_COUNT_MAX,
    ProtobufTypes,
    parse_message,
)
from skerry.schema.model import Kind, VectorType
from tests.unit.protocol.portal.mapping.descriptors import (
    FILES,
    descriptor_set,
    file_of,
    fleet,
    message,
)

FULL = """
name: "sub1" position { lat: 52.5 lon: 4.25 } track { lat: 1 lon: 2 } track { lat: 3 lon: 4 }
mode: SURVEY depths: 1.5 depths: 2.5 raw: "\\000\\377" count: -9000000000 modes: IDLE modes: LOST
is_ok: true late: 7
"""


def objects_of(name: str, /, **given: Any) -> MessageObjects:
    cls = fleet().find(f"fleet.{name}")
    assert cls is not None
    return MessageObjects(cls, MessageStructs().struct(cls.DESCRIPTOR, **given))


def test_a_message_becomes_a_struct() -> None:
    struct = objects_of("Report").struct
    assert struct.name == "fleet_Report"
    assert {field.name: field.tag for field in struct.fields} == {
        "name": 1,
        "position": 2,
        "track": 3,
        "mode": 4,
        "depths": 5,
        "raw": 6,
        "count": 7,
        "modes": 8,
        "is_ok": 31,
        "late": 30,
    }
    assert not struct.flags.cached
    assert struct.field("count").type.kind == Kind.INT64
    assert isinstance(struct.field("track").type, VectorType)
    assert struct.field("mode").type.name == "fleet_Mode"


def test_an_object_has_all_that_its_message_has() -> None:
    objects = objects_of("Report")
    data = message("Report", FULL).SerializeToString()
    obj: Any = objects.object_of(data)
    assert obj.name == "sub1"
    assert (obj.position.lat, obj.track[1].lon) == (52.5, 4)
    assert obj.mode.label == "SURVEY"
    assert obj.mode.value == 4
    assert [mode.label for mode in obj.modes] == ["IDLE", "LOST"]
    assert (obj.raw, obj.count, obj.is_ok, obj.late) == (b"\0\xff", -9_000_000_000, True, 7)
    assert type(obj).decode(obj.encode()) == obj
    assert objects.encoded(obj) == data


def test_fields_that_are_not_set_stay_unset() -> None:
    obj: Any = objects_of("Report").object_of(message("Report", 'name: ""').SerializeToString())
    assert obj.name == ""
    assert obj.position is obj.track is obj.mode is obj.late is None
    objects = objects_of("Status")
    modern: Any = objects.object_of(b"")
    # Such a field is never sent with its default value, so that is its value.
    assert (modern.id, modern.text, modern.at) == (0, "", None)
    assert objects.encoded(modern) == b""


def test_with_a_key_the_objects_are_cached() -> None:
    struct = objects_of("Report", key=("name",), name="Report").struct
    assert struct.name == "Report"
    assert struct.flags.cached
    assert [field.name for field in struct.key_fields] == ["name"]
    assert objects_of("Report", is_cached=True).struct.flags.cached


@pytest.mark.parametrize("key", ["position", "track", "depths", "nothing"])
def test_only_one_number_or_text_can_be_a_key(key: str) -> None:
    with pytest.raises(SchemaCheckError, match=key):
        objects_of("Report", key=(key,))


@pytest.mark.parametrize(("name", "fault"), [("Tree", "contains itself"), ("Empty", "no fields")])
def test_what_the_type_language_cannot_express_is_refused(name: str, fault: str) -> None:
    with pytest.raises(SchemaCheckError, match=fault):
        objects_of(name)


def made(**fields: Any) -> Any:
    """The class of message T of a file with these parts."""
    types = ProtobufTypes()
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", **fields)
    types.add_file(file.SerializeToString())
    return types.find("T")


def field_of(number: int, **facts: Any) -> dict[str, Any]:
    return {"name": f"f{number}", "number": number, "label": 1, "type": 5, **facts}


def test_a_type_has_at_most_31_fields() -> None:
    def message_with(count: int) -> Any:
        fields = [field_of(number * 10) for number in range(1, count + 1)]
        return made(message_type=[{"name": "T", "field": fields}])

    struct = MessageStructs().struct(message_with(31).DESCRIPTOR)
    assert sorted(field.tag for field in struct.fields) == list(range(1, 32))
    with pytest.raises(SchemaCheckError, match="32 fields"):
        MessageStructs().struct(message_with(32).DESCRIPTOR)


def test_messages_may_be_nested_to_the_limit() -> None:
    def chain(depth: int) -> Any:
        inner = [
            {"name": f"M{n}", "field": [field_of(1, type=11, type_name=f".M{n + 1}")]}
            for n in range(1, depth - 1)
        ]
        last = {"name": f"M{depth - 1}", "field": [field_of(1)]}
        first = {"name": "T", "field": [field_of(1, type=11, type_name=".M1")]}
        return made(message_type=[first, *inner, last])

    assert MessageStructs().struct(chain(TYPE_DEPTH_MAX).DESCRIPTOR).depth == TYPE_DEPTH_MAX
    with pytest.raises(SchemaCheckError, match="nested 17 deep"):
        MessageStructs().struct(chain(TYPE_DEPTH_MAX + 1).DESCRIPTOR)


def test_elements_with_too_large_numbers_are_refused() -> None:
    def enum_with(*numbers: int) -> Any:
        values = [{"name": f"E{n}".replace("-", "M"), "number": n} for n in numbers]
        return made(
            enum_type=[{"name": "E", "value": values}],
            message_type=[{"name": "T", "field": [field_of(1, type=14, type_name=".E")]}],
        )

    struct = MessageStructs().struct(enum_with(2**31 - 2, -(2**31) + 1).DESCRIPTOR)
    assert struct.field("f1").type.kind == Kind.ENUM
    for numbers in ((0, 2**31 - 1), (0, -(2**31)), (2**31 - 2, -1)):
        with pytest.raises(SchemaCheckError, match="too large"):
            MessageStructs().struct(enum_with(*numbers).DESCRIPTOR)


def test_a_name_has_one_definition() -> None:
    structs = MessageStructs()
    report, position = (fleet().find(f"fleet.{name}") for name in ("Report", "Position"))
    assert report is not None
    assert position is not None
    structs.struct(report.DESCRIPTOR)
    assert structs.struct(position.DESCRIPTOR, name="Fix", is_cached=True).name == "Fix"
    with pytest.raises(SchemaCheckError, match="fleet_Position"):
        structs.struct(position.DESCRIPTOR, is_cached=True)


@given(st.binary(max_size=80))
def test_any_payload_is_read_or_refused(noise: bytes) -> None:
    objects = objects_of("Report")
    try:
        objects.object_of(noise).encode()
    except DecodeError:
        return


def test_elements_that_the_enum_does_not_have_are_refused() -> None:
    modern = FILES[2].__class__()
    modern.CopyFrom(FILES[2])
    modern.enum_type.add(name="Level").value.add(name="LOW", number=0)
    modern.message_type[0].field.add(
        name="level", number=4, label=1, type=14, type_name=".fleet.Level"
    )
    types = ProtobufTypes()
    types.add_file(modern.SerializeToString())
    cls = types.find("fleet.Status")
    assert cls is not None
    objects = MessageObjects(cls, MessageStructs().struct(cls.DESCRIPTOR))
    with pytest.raises(DecodeError, match="3 is not an element"):
        objects.object_of(b"\x20\x03")


def test_an_object_that_a_message_cannot_hold_is_refused() -> None:
    objects = objects_of("Report")
    obj: Any = objects.object_of(message("Report", FULL).SerializeToString())
    obj.late = 2**32
    with pytest.raises(EncodeError):
        objects.encoded(obj)
    obj.late, obj.name = None, None
    with pytest.raises(EncodeError, match="name"):
        objects.encoded(obj)


# -- descriptors


def test_files_may_come_in_any_order() -> None:
    types = ProtobufTypes()
    types.add_file(FILES[1].SerializeToString())
    assert types.find("fleet.Report") is None
    assert types.missing_imports() == ["fleet/base.proto"]
    types.add_file(FILES[0].SerializeToString())
    types.add_file(FILES[0].SerializeToString())
    assert types.find("fleet.Report") is not None
    assert types.missing_imports() == []
    assert sorted(types.names()) == [f"fleet.{n}" for n in ("Empty", "Position", "Report", "Tree")]


def test_the_files_of_a_message_follow_their_imports() -> None:
    types = fleet()
    assert [name for name, _ in types.files_of("fleet.Report")] == [
        "fleet/base.proto",
        "fleet/report.proto",
    ]
    names = [name for name, _ in types.files_of("fleet.Status")]
    assert names == ["google/protobuf/timestamp.proto", "fleet/modern.proto"]
    assert list(types.files_of("unknown")) == []


def test_faulty_descriptors_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    types = fleet()
    with pytest.raises(DecodeError, match="descriptor"):
        types.add_set(b"\xff")
    other = file_of('name: "fleet/base.proto" package: "other"')
    with pytest.raises(SchemaCheckError, match="two definitions"):
        types.add_file(other.SerializeToString())
    broken = file_of('name: "broken.proto" message_type { name: "A" } message_type { name: "A" }')
    with pytest.raises(DecodeError, match=r"broken\.proto"):
        types.add_file(broken.SerializeToString())
    assert types.find("fleet.Report") is not None
    assert len(FILES) < PROTOBUF_FILE_COUNT_MAX
    monkeypatch.setattr(protobuf_types, "PROTOBUF_FILE_COUNT_MAX", 2)
    with pytest.raises(DecodeError, match="more than 2 files"):
        ProtobufTypes().add_set(descriptor_set())


def test_a_faulty_message_names_its_type() -> None:
    with pytest.raises(DecodeError, match=r"fleet\.Report"):
        parse_message(fleet().find("fleet.Report"), b"\x0a\xff")
