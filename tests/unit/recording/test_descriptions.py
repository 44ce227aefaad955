"""Types as rows of a segment, and back."""

from __future__ import annotations

from skerry.codec.envelope import INTERNAL, SNAPSHOT, Update
from skerry.objects.typeset import define_types
from skerry.recording.descriptions import described_types, description_updates
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import NamedType

FLEET = """
enum Color { 1: red, 2: green }
struct Engine { 1: float32 power; 2: Color color; }
/// A ship.
struct Vessel { 1: [key] uint32 mmsi; 2: Engine engine; 3: vector<Color> colors; }
"""


def rows_of(*types: NamedType) -> list[tuple[str, int, bytes]]:
    updates = [u for t in types for u in description_updates(t, space="local", time_ns=5)]
    return [(update.type_name, update.fingerprint, update.payload) for update in updates]


def test_type_is_read_back_with_its_nested_types() -> None:
    types = define_types(FLEET)
    vessel = types.Vessel.descriptor
    found = described_types(rows_of(vessel))
    assert [type_.name for type_ in found.values()] == ["Color", "Engine", "Vessel"]
    assert found[fingerprint(vessel)].documentation == vessel.documentation == "A ship."
    assert [fingerprint(type_) for type_ in found.values()] == list(found)


def test_description_is_a_row_like_those_of_other_objects() -> None:
    types = define_types(FLEET)
    updates = description_updates(types.Vessel.descriptor, space="fleet", time_ns=5)
    last: Update = updates[-1]
    assert (last.type_name, last.subject) == (
        "StructDescriptorData",
        "/StructDescriptorData/Vessel",
    )
    assert (last.operation, last.source, last.space) == (SNAPSHOT, INTERNAL, "fleet")
    assert last.fingerprint == fingerprint(types.Vessel.descriptor)
    assert updates[0].subject == "/EnumDescriptorData/Color"
    assert last.key == b"\x81\x66Vessel"
    assert last.present != 0


def test_two_definitions_of_a_nested_type_do_not_interfere() -> None:
    first = define_types("enum E { 1: a }\nstruct A { 1: E e; }\nstruct B { 1: E e; }")
    second = define_types("enum E { 1: a, 2: b }\nstruct A { 1: E e; }")
    known = [first.A.descriptor, second.A.descriptor, first.B.descriptor]
    found = described_types(rows_of(*known))
    assert all(fingerprint(type_) in found for type_ in known)
    assert len(found) == 5


def test_description_of_something_else_is_left_out() -> None:
    (row,) = rows_of(define_types("struct A { 1: string s; }").A.descriptor)
    name, number, payload = row
    assert described_types([(name, number + 1, payload)]) == {}
    assert described_types([(name, number, b"\xff")]) == {}
    assert described_types([("EnumDescriptorData", number, payload)]) == {}


def test_struct_without_its_parts_is_left_out() -> None:
    rows = rows_of(define_types(FLEET).Vessel.descriptor)
    assert described_types(rows[1:]) == {}
