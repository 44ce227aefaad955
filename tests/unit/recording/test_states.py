"""The state of objects after some updates."""

from __future__ import annotations

from typing import Any

import skerry
from skerry import cbor
from skerry.codec.envelope import CREATE, GAP, REMOVE, SNAPSHOT, UPDATE, Update
from skerry.objects.base import codec_of
from skerry.recording.states import States, has_state
from skerry.recording.unions import united_types
from skerry.schema.fingerprint import fingerprint

TYPES = skerry.define_types(
    """
    struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: uint32 speed; }
    struct Hail [cached=false] { 1: [key] uint32 to; }
    """
)
KNOWN = {fingerprint(cls.descriptor): cls.descriptor for cls in (TYPES.Vessel, TYPES.Hail)}


def update(obj: Any, time: int, operation: int = UPDATE, **changes: Any) -> Update:
    codec = codec_of(type(obj))
    payload = obj.encode()
    facts = {
        "type_name": obj.descriptor.name,
        "operation": operation,
        "present": int(obj.attributes),
        "key": codec.key_of(codec.split(payload)),
        "payload": payload,
        "fingerprint": fingerprint(obj.descriptor),
        "node": 7,
        "sender": 2,
        "sequence": time,
        "position": time,
        "time_ns": time,
    }
    return Update(**{**facts, "subject": f"/{obj.descriptor.name}/{time % 10}", **changes})


def vessel(mmsi: int, **fields: Any) -> Any:
    return TYPES.Vessel(mmsi=mmsi, **fields)


def after(*updates: Update, known: Any = KNOWN) -> list[Update]:
    states = States(known)
    for item in updates:
        states.apply(item)
    count = len(states)
    found = list(states.take_updates())
    assert len(found) == count
    assert len(states) == 0
    return found


def shown(updates: list[Update]) -> list[tuple[int, Any]]:
    return [(u.operation, TYPES[u.type_name].decode(u.payload)) for u in updates]


def test_an_object_of_several_definitions_has_the_fields_of_all_and_their_union() -> None:
    newer = skerry.define_types(
        "struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: uint32 speed; 5: bool seen; }"
    ).Vessel
    known = {**KNOWN, fingerprint(newer.descriptor): newer.descriptor}
    (found,) = after(
        update(newer(mmsi=1, seen=True), 1, CREATE),
        update(vessel(1, speed=4), 2),
        known=united_types(known),
    )
    assert found.fingerprint == fingerprint(newer.descriptor), "which is their union"
    assert newer.decode(found.payload) == newer(mmsi=1, speed=4, seen=True)
    assert found.present == 0b101010


def test_fields_that_no_definition_has_are_kept() -> None:
    created = update(vessel(1, name="a"), 1, CREATE)
    strange = cbor.dumps({1: 1, 2: "a", 9: [1, 2]})
    (found,) = after(
        created.replace(payload=strange, present=0b1000000110), update(vessel(1, speed=4), 2)
    )
    assert cbor.loads(found.payload) == {1: 1, 2: "a", 3: 4, 9: [1, 2]}
    assert found.present == 0b1000001110


def test_objects_are_merged_and_messages_and_gaps_ignored() -> None:
    found = after(
        update(vessel(1, name="a", speed=1), 1, CREATE),
        update(vessel(1, speed=2), 2),
        update(vessel(2, name="b"), 3, CREATE),
        update(vessel(2), 4, REMOVE),
        update(TYPES.Hail(to=9), 5, CREATE),
        update(vessel(9), 6, GAP),
    )
    assert shown(found) == [(SNAPSHOT, vessel(1, name="a", speed=2))]
    (state,) = found
    assert (state.present, state.time_ns, state.position) == (0b1110, 2, 2)
    assert state.sequence == 0, "it is not what the sender sent"


def test_object_without_its_creation_stays_an_update() -> None:
    (state,) = after(
        update(vessel(1, name="a"), 1),
        update(vessel(1), 2, present=0b1010),
    )
    assert shown([state]) == [(UPDATE, vessel(1, name="a"))]
    assert state.present == 0b1110, "that the speed was cleared is known, too"


def test_states_are_in_the_order_of_their_last_updates() -> None:
    found = after(
        update(vessel(1), 1),
        update(vessel(2), 2),
        update(vessel(1), 3),
        update(vessel(3), 2, node=6),
    )
    assert [(state.node, state.position) for state in found] == [(6, 2), (7, 2), (7, 3)]


def test_object_starts_again_after_a_remove() -> None:
    found = after(
        update(vessel(1, name="a"), 1, CREATE),
        update(vessel(1), 2, REMOVE),
        update(vessel(1, speed=4), 3, CREATE),
    )
    assert shown(found) == [(SNAPSHOT, vessel(1, speed=4))]


def test_cleared_field_is_unset() -> None:
    (state,) = after(
        update(vessel(1, name="a", speed=1), 1, CREATE),
        update(vessel(1), 2, present=0b1010),
    )
    assert TYPES.Vessel.decode(state.payload) == vessel(1, name="a")
    assert state.present == 0b0110


def test_create_and_incompatible_definition_replace_the_object() -> None:
    updates = [update(vessel(1, name="a"), 1, CREATE), update(vessel(1, speed=1), 2, CREATE)]
    (state,) = after(*updates)
    assert TYPES.Vessel.decode(state.payload) == vessel(1, speed=1)
    (state,) = after(*updates, update(vessel(1, speed=5), 3).replace(payload=b"\xa1\x02\x05"))
    assert (state.payload, state.operation) == (b"\xa1\x02\x05", UPDATE)


def test_an_unknown_type_has_no_state() -> None:
    assert after(update(vessel(1), 1, CREATE), known={}) == []
    assert not has_state(update(vessel(1), 1), None)
    assert not has_state(update(TYPES.Hail(to=1), 1), TYPES.Hail.descriptor)
    assert not has_state(update(vessel(1), 1, GAP), TYPES.Vessel.descriptor)
    assert has_state(update(vessel(1), 1), TYPES.Vessel.descriptor)
