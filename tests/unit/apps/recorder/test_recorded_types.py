"""Types of recorded objects: internal ones and described ones."""

from __future__ import annotations

from typing import Any

import pytest

import skerry
from skerry.apps.recorder.recorded_types import RecordedTypes
from skerry.codec.envelope import DISTRIBUTOR, INTERNAL
from skerry.errors import CodecError, SchemaError
from skerry.objects.descriptors import describe
from skerry.recording.columns import DESCRIPTOR_TYPES
from skerry.schema.fingerprint import fingerprint


def learn(types: RecordedTypes, type_: Any, sender: int = 0) -> Any:
    obj = describe(type_)
    return types.learn(obj.descriptor.name, obj.encode(), sender=sender)


def defined(text: str) -> Any:
    return skerry.define_types(text)


def test_internal_types_are_known_and_messages_of_the_connection_are_services() -> None:
    types = RecordedTypes()
    assert types.known["DotsClient"].source == INTERNAL
    assert types.known["DotsEcho"].is_service
    names = {type_.name for type_ in types.internal()}
    assert {"DotsClient", "SkerryLedger", "SkerryBytes"} <= names
    assert not names & {*DESCRIPTOR_TYPES, "DotsMsgHello", "DotsEcho"}


def test_a_described_type_is_known_with_its_parts() -> None:
    types = RecordedTypes(DISTRIBUTOR)
    found = defined("enum Kind { 1: tug } struct Vessel { 1: [key] uint32 mmsi; 2: Kind kind; }")
    assert learn(types, found.Kind.descriptor) == found.Kind.descriptor
    assert learn(types, found.Vessel.descriptor) == found.Vessel.descriptor
    known = types.known["Vessel"]
    assert known.fingerprint == fingerprint(found.Vessel.descriptor)
    assert known.source == DISTRIBUTOR
    assert "Kind" not in types.known


def test_the_same_description_again_is_nothing_new() -> None:
    types = RecordedTypes()
    type_ = defined("struct A { 1: [key] uint32 id; }").A.descriptor
    assert learn(types, type_) is not None
    assert learn(types, type_) is None


def test_another_definition_replaces_the_type_and_keeps_its_objects() -> None:
    types = RecordedTypes()
    learn(types, defined("struct A { 1: [key] uint32 id; }").A.descriptor)
    types.known["A"].subjects[b"\x81\x01"] = "/A/1"
    newer = defined("struct A { 1: [key] uint32 id; 2: string name; }").A.descriptor
    assert learn(types, newer) == newer
    assert types.known["A"].fingerprint == fingerprint(newer)
    assert types.known["A"].subjects == {b"\x81\x01": "/A/1"}


@pytest.mark.parametrize("payload", [b"\xa0", b"", b"\xff"])
def test_invalid_descriptions_are_rejected(payload: bytes) -> None:
    with pytest.raises((CodecError, SchemaError)):
        RecordedTypes().learn("StructDescriptorData", payload)


def test_each_sender_has_its_own_definitions_and_equal_ones_are_shared() -> None:
    types = RecordedTypes(DISTRIBUTOR)
    old = defined("enum Kind { 1: tug } struct A { 1: [key] uint32 id; 2: Kind kind; }")
    new = defined("enum Kind { 1: tug, 2: sub } struct A { 1: [key] uint32 id; 2: Kind kind; }")
    for sender, found in ((5, old), (6, new), (7, new)):
        learn(types, found.Kind.descriptor, sender)
        assert learn(types, found.A.descriptor, sender) == found.A.descriptor
    assert learn(types, old.A.descriptor, 5) is None
    own = {sender: known["A"] for sender, known in types.by_sender.items()}
    assert own[5].fingerprint == fingerprint(old.A.descriptor)
    assert own[6] is own[7] is types.known["A"]


def test_past_the_bound_the_definitions_of_the_first_senders_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    types = RecordedTypes(DISTRIBUTOR)
    limit = len(types._named) + 2
    monkeypatch.setattr("skerry.apps.recorder.recorded_types.TYPE_COUNT_MAX", limit)
    type_ = defined("struct A { 1: [key] uint32 id; }").A.descriptor
    for sender in range(1, limit + 3):
        learn(types, type_, sender)
    assert list(types.by_sender) == list(range(3, limit + 3))
