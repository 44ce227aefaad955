"""The update: one value that all parts hand to each other."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from skerry.codec import envelope
from skerry.codec.envelope import CREATE, OPERATION_NAMES, REMOVE, Update, restore_update
from skerry.codec.values import PropertySet
from skerry.objects.internal import internal_class


def update(**changes: Any) -> Update:
    facts: dict[str, Any] = {
        "type_name": "Vessel",
        "subject": "/Vessel/5",
        "operation": CREATE,
        "present": 6,
        "key": b"\x81\x05",
        "payload": b"\xa2\x01\x05\x02\x06",
    }
    return Update(**{**facts, **changes})


ALL = {
    "space": "site#1",
    "fingerprint": -5,
    "sender": 7,
    "node": -(2**63),
    "sequence": 3,
    "position": 4,
    "sent_ns": 10**18,
    "time_ns": 10**18 + 1,
    "source": envelope.LINK,
}


def test_unknown_facts_have_default_values() -> None:
    plain = update()
    assert (plain.space, plain.source, plain.sent_ns) == ("local", "internal", -1)
    assert (plain.sender, plain.node, plain.sequence, plain.position, plain.time_ns) == (0,) * 5
    assert plain.fingerprint == 0


def test_facts_are_all_facts() -> None:
    full = update(**ALL)
    facts = full.facts()
    assert {**facts, **ALL} == facts
    assert set(facts) == {name for name in dir(full) if name in facts}
    assert Update(**facts) == full == restore_update(facts)
    for name, value in facts.items():
        assert getattr(full, name) == value


@pytest.mark.parametrize("name", sorted(ALL))
def test_updates_differ_in_any_fact(name: str) -> None:
    assert update(**ALL) != update(**{**ALL, name: update().facts()[name]})


def test_an_update_is_changed_by_making_another() -> None:
    first = update()
    second = first.replace(operation=REMOVE, position=9)
    assert (first.operation, second.operation, second.position) == (CREATE, REMOVE, 9)
    assert second.replace(operation=CREATE, position=0) == first
    with pytest.raises(TypeError):
        first.replace(colour="red")


def test_updates_are_copied_pickled_and_hashed() -> None:
    first = update(**ALL)
    for again in (copy.copy(first), copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert again == first
        assert hash(again) == hash(first)
    assert first != "an update"
    assert len({first, update(**ALL), update()}) == 2


def test_an_update_is_shown_in_a_line() -> None:
    assert repr(update(position=3)) == "Update(create /Vessel/5, 5 bytes, position 3)"
    assert repr(update(operation=REMOVE)).startswith("Update(remove ")


def test_property_sets_and_numbers_serve_alike() -> None:
    assert update(present=PropertySet(6)) == update(present=6)


def test_operations_are_numbered_as_on_the_wire() -> None:
    on_wire = {member.label: member.tag for member in internal_class("DotsMt")}
    ours = {name: number for number, name in enumerate(OPERATION_NAMES) if name}
    assert {**ours, **on_wire} == ours
    assert ours == {"create": 1, "update": 2, "remove": 3, "gap": 4, "snapshot": 5}
    numbered = (envelope.CREATE, envelope.UPDATE, envelope.REMOVE, envelope.GAP, envelope.SNAPSHOT)
    assert tuple(ours.values()) == numbered
