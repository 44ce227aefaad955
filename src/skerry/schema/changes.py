"""The kinds of change of a type, and the effect of each on readers."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from skerry.schema.reading import Effect


class What(enum.Enum):
    TYPE_ADDED = "type added"
    TYPE_REMOVED = "type removed"
    TYPE_REPLACED = "struct and enum swapped"
    TYPE_RENAMED = "type renamed"
    FIELD_ADDED = "field added"
    KEY_ADDED = "key field added"
    FIELD_REMOVED = "field removed"
    FIELD_DROPPED = "field removed, tag not reserved"
    KEY_REMOVED = "key field removed"
    KEY_STRUCT_CHANGED = "struct of a key changed"
    FIELD_RENAMED = "field renamed"
    FIELD_REPLACED = "tag has another field"
    FIELD_RETAGGED = "field has another tag"
    TAG_TAKEN_OVER = "tag taken over"
    TAG_REUSED = "tag used again"
    TAG_RESERVED = "tag reserved"
    TAG_RELEASED = "reserved tag released"
    RESERVATION_EDITED = "reserved tag described differently"
    TYPE_WIDENED = "type widened"
    TYPE_NARROWED = "type narrowed"
    TYPE_CHANGED = "type changed"
    BECAME_KEY = "field became a key"
    NO_LONGER_KEY = "field is no longer a key"
    ORDER_CHANGED = "order changed"
    BECAME_CACHED = "became cached"
    BECAME_UNCACHED = "became uncached"
    BECAME_INTERNAL = "became internal"
    NO_LONGER_INTERNAL = "is no longer internal"
    BECAME_SUBSTRUCT_ONLY = "became substruct_only"
    NO_LONGER_SUBSTRUCT_ONLY = "is no longer substruct_only"
    BECAME_PERSISTENT = "became persistent"
    NO_LONGER_PERSISTENT = "is no longer persistent"
    CLEANUP_CHANGED = "cleanup changed"
    LOCAL_CHANGED = "local changed"
    SCOPE_NARROWED = "scope narrowed"
    SCOPE_WIDENED = "scope widened"
    SCOPE_WRITTEN = "scope written or left out"
    ELEMENT_ADDED = "element added"
    ELEMENT_REMOVED = "element removed"
    ELEMENT_RENAMED = "element renamed"
    KEY_ELEMENT_RENAMED = "element of a key renamed"
    ELEMENT_RETAGGED = "element has another tag"
    VALUE_CHANGED = "value of an element changed"
    DEFAULT_CHANGED = "default changed"
    CONSTRUCTOR_CHANGED = "ctor changed"
    DEPRECATION_CHANGED = "deprecation changed"
    OPTIONS_CHANGED = "other options changed"
    DOCUMENTATION_CHANGED = "documentation changed"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two definitions, and its effects."""

    what: What
    where: str
    """The type, or the type and its field or element: `Vessel.lat`."""
    detail: str
    """The old and the new value, or what was added or removed."""
    old_reader: Effect
    """The effect on a program with the old definition that receives new data."""
    new_reader: Effect
    """The effect on a program with the new definition that receives old data."""
    stored: Effect
    """The effect on data that was stored earlier and is read with the new definition."""
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what.value} ({self.detail}): {self.why}"


class Verdict(enum.Enum):
    """The effect of all changes together."""

    COMPATIBLE = "compatible"
    OLD_READERS_BREAK = "old readers break"
    NEW_READERS_BREAK = "new readers break"
    BOTH_BREAK = "both break"


def verdict(changes: Iterable[Change]) -> Verdict:
    old = new = False
    for change in changes:
        old |= change.old_reader == Effect.BREAKS
        new |= Effect.BREAKS in {change.new_reader, change.stored}
    if old and new:
        return Verdict.BOTH_BREAK
    if old:
        return Verdict.OLD_READERS_BREAK
    return Verdict.NEW_READERS_BREAK if new else Verdict.COMPATIBLE


# -- the effect of each change


_EFFECTS: Final = {"F": Effect.FINE, "L": Effect.LOSES, "B": Effect.BREAKS}

_RULES_TEXT: Final = """\
TYPE_ADDED FFF no data of it exists yet
TYPE_REMOVED LLL old readers receive no more objects; new ones know old data only by its
    description
TYPE_REPLACED BBB on the wire an enum is a number and a struct is a map
TYPE_RENAMED BBB the name is transmitted: readers of one name never receive objects of the other
FIELD_ADDED FFF old readers skip an unknown tag; new ones find the field unset in old data
KEY_ADDED LBB old readers see different objects as one; old data lacks a part of the key
FIELD_REMOVED LFF old readers find the field unset; new ones skip its tag in old data
FIELD_DROPPED LFF like a removed field, but its tag may be reused by mistake: mark the field
    removed
KEY_REMOVED BLB old readers reject an object that lacks a part of its key; identities change
KEY_STRUCT_CHANGED BBB the bytes of the struct are the key, so one object becomes two
FIELD_RENAMED FFF the tag is transmitted; only JSON, filters and programs use the name
FIELD_RETAGGED BBB each side uses its own tag: it misses the value or reads another one
TAG_TAKEN_OVER BBB each side reads one as the other, without an error if the bytes fit
TAG_REUSED FFB data from before the removal has something else under this tag
TAG_RESERVED FFF nothing is transmitted under the tag
TAG_RELEASED FFF nothing is transmitted under the tag, but it may now be reused by mistake
RESERVATION_EDITED FFF nothing is transmitted under the tag
BECAME_KEY LBB old readers see different objects as one; old data may lack the field
NO_LONGER_KEY BLB old readers need it in every update and remove; several objects become one
ORDER_CHANGED FFF readers accept any order; only the bytes differ
BECAME_CACHED FFF programs that connect later now receive the objects too
BECAME_UNCACHED LFL programs that connect later receive nothing, and a remove is refused
BECAME_INTERNAL BFF internal types are never described: a program must have them built in
NO_LONGER_INTERNAL FFF the type is described on each connection now
BECAME_SUBSTRUCT_ONLY LBB objects of it can no longer be published or subscribed
NO_LONGER_SUBSTRUCT_ONLY LFF old programs cannot subscribe to objects of it
BECAME_PERSISTENT FFF from now on objects survive a restart of their node
NO_LONGER_PERSISTENT FFL objects do not survive a restart of their node any more
CLEANUP_CHANGED FFF it decides whether objects are removed when their last publisher disconnects
LOCAL_CHANGED FFF it decides only the scope, whose change is reported if there is one
SCOPE_NARROWED LFF programs of other nodes or sites no longer receive the objects
SCOPE_WIDENED FFF objects are distributed further than before
SCOPE_WRITTEN FFF objects are distributed as far as before
ELEMENT_ADDED BFF an unknown tag makes the whole object unreadable for an old reader
ELEMENT_REMOVED FBB its tag is unknown to new readers and makes the whole object unreadable
ELEMENT_RENAMED FFF the tag is transmitted; only JSON, filters and programs use the name
KEY_ELEMENT_RENAMED LLL the name is part of the subject: subscribers of one never receive the other
ELEMENT_RETAGGED BBB the tag is transmitted: each side reads it as another element or as none
VALUE_CHANGED FFF values are not transmitted; programs that compute with them see the change
DEFAULT_CHANGED FFF it is set when an object is made, not when it is read
CONSTRUCTOR_CHANGED FFF only calls of the constructor change
DEPRECATION_CHANGED FFF it is advice for people
OPTIONS_CHANGED FFF skerry gives these options no meaning
DOCUMENTATION_CHANGED FFF it is text for people"""
"""Each kind of change, except for those of a field's type, about which `reads` decides: whether an
old reader, a new reader and a reader of stored data is Fine, Loses or Breaks, and why."""

_RULES: Final = {
    What[name]: ([_EFFECTS[letter] for letter in effects], " ".join(why))
    for name, effects, *why in map(str.split, re.split(r"\n(?=\S)", _RULES_TEXT))
}


def change(what: What, where: str, detail: str) -> Change:
    """A change with the effects of its kind."""
    (old_reader, new_reader, stored), why = _RULES[what]
    return Change(what, where, detail, old_reader, new_reader, stored, why)
