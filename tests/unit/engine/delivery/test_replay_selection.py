"""What a pattern selects of a type, with as few looks as possible."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

import skerry
from skerry.codec.pieces import split
from skerry.codec.subjects import default_subject
from skerry.engine.delivery.replay_selection import (
    FilterChoice,
    PatternChoice,
    named_keys,
    selects_all,
)
from skerry.engine.dispatch.topics import Topic
from skerry.protocol.patterns import covers

if TYPE_CHECKING:
    from tests.unit.engine.conftest import Harbour

TYPES = skerry.define_types(
    """
    enum Kind { 1: cargo, 2: tanker }
    struct Berth { 1: string note; 2: [key] uint32 pier; 3: [key] string name; }
    struct Mark { 1: [key] float64 lat; 2: [key] bool lit; 20: [key] Kind kind; }
    struct Ship { 1: [key] uint32 id; 2: string name; }
    struct Only { 1: string text; }
    """
)
Berth, Mark, Ship, Only = TYPES.Berth, TYPES.Mark, TYPES.Ship, TYPES.Only
NAMES = ("a", "b", "*", "...", "", "a/b", "~", "\u00e9")


@pytest.fixture
def topics(harbour: Harbour) -> dict[str, Topic]:
    """With objects of all kinds of keys, and some that are elsewhere."""
    maker = harbour.guest("maker")
    maker.publish(*(Berth(pier=p, name=n, note="\x02\x07") for p in (0, 7, 300) for n in NAMES))
    kinds = (TYPES.Kind.cargo, TYPES.Kind.tanker)
    maker.publish(
        *(
            Mark(lat=lat, lit=lit, kind=k)
            for lat in (0.0, 1.5)
            for lit in (False, True)
            for k in kinds
        )
    )
    maker.publish(*(Ship(id=number, name="n") for number in range(30)), Only(text="x"))
    maker.publish(Berth(pier=7, name="away"), subject="/own/7")
    maker.publish(Berth(pier=8, name="b"), subject="/Berth/7/b/more")
    maker.publish(Ship(id=99), subject="/Ship/7")
    return dict(harbour.node._dispatcher.topics)


def patterns_for(topic: Topic) -> list[str]:
    """All patterns that are made of the subjects of its objects by wild cards."""
    found = {"/...", "/*", "/own/*", "/own/7", "/nothing", "/Ship/07", "/Ship/+7", "/Berth/x/b"}
    for entry in topic.type_cache.objects.values():
        levels = subject_of(topic, entry).split("/")[1:]
        for mask in product([False, True], repeat=len(levels)):
            chosen = ["*" if wild else level for wild, level in zip(mask, levels, strict=True)]
            found.add("/" + "/".join(chosen))
            found.add("/" + "/".join([*chosen[:-1], "..."]))
    return sorted(found)


def subject_of(topic: Topic, entry: Any) -> str:
    return entry.subject or default_subject(topic.plan, split(topic.plan, entry.payload, 0))


@pytest.mark.parametrize("name", ["Berth", "Mark", "Ship", "Only"])
def test_a_choice_agrees_with_the_subjects_of_the_objects(
    name: str, topics: dict[str, Topic]
) -> None:
    topic = topics[name]
    objects, looked_up = topic.type_cache.objects, 0
    for pattern in patterns_for(topic):
        wanted = {k for k, entry in objects.items() if covers(pattern, subject_of(topic, entry))}
        choice = PatternChoice(topic, pattern)
        assert {k for k, entry in objects.items() if choice.wants(entry)} == wanted, pattern
        if selects_all(topic, pattern):
            assert wanted == set(objects), pattern
        keys = named_keys(topic, pattern, 1000)
        if keys is not None:
            assert set(keys) == wanted, pattern
            assert len(keys) == len(wanted), pattern
            looked_up += bool(keys)
    assert looked_up >= (len(objects) if name != "Only" else 0), "each by its whole subject"


def test_objects_elsewhere_are_looked_at_as_far_as_they_are_few(topics: dict[str, Topic]) -> None:
    topic = topics["Berth"]
    assert len(topic.type_cache.own_keys) == 2
    assert named_keys(topic, "/Berth/7/b", 1) is None
    assert named_keys(topic, "/own/7", 1) is None
    assert named_keys(topic, "/own/7", 2) == [
        key for key in topic.type_cache.own_keys if b"away" in key
    ]
    assert named_keys(topic, "/Berth/7/*", 1000) is None
    assert not selects_all(topic, "/Berth/*/*")
    assert selects_all(topic, "/...")
    assert selects_all(topics["Mark"], "/Mark/...")


def test_a_choice_follows_another_definition_of_the_type(topics: dict[str, Topic]) -> None:
    topic = topics["Ship"]
    choice = PatternChoice(topic, "/Ship/5")
    assert sum(choice.wants(entry) for entry in topic.type_cache.objects.values()) == 1
    other = skerry.define_types("struct Ship { 2: string name; 9: [key] uint64 id; }").Ship
    topic.plan = skerry.objects.base.codec_of(other).plan
    (entry, *_) = topic.type_cache.objects.values()
    for number, is_wanted in ((5, True), (6, False)):
        changed = entry.with_payload(other(id=number).encode(), 1 << 9)
        assert choice.wants(changed) is is_wanted


def test_what_a_client_may_see_is_what_is_not_hidden(topics: dict[str, Topic]) -> None:
    choice = FilterChoice(lambda subject: subject != "/own/7")
    for entry in topics["Berth"].type_cache.objects.values():
        assert choice.wants(entry) is (entry.subject != "/own/7")
