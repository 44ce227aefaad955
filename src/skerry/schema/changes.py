"""The kinds of change of a type, and the effect of each on readers."""

from __future__ import annotations

import enum
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


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True)
class _Rule:
    old_reader: Effect
    new_reader: Effect
    stored: Effect
    why: str


_F, _L, _B = Effect.FINE, Effect.LOSES, Effect.BREAKS

_RULES: Final[dict[What, _Rule]] = {
    What.TYPE_ADDED: _Rule(_F, _F, _F, "no data of it exists yet"),
    What.TYPE_REMOVED: _Rule(
        _L,
        _L,
        _L,
        "old readers receive no more objects; new ones know old data only by its description",
    ),
    What.TYPE_REPLACED: _Rule(_B, _B, _B, "on the wire an enum is a number and a struct is a map"),
    What.TYPE_RENAMED: _Rule(
        _B,
        _B,
        _B,
        "the name is transmitted: readers of one name never receive objects of the other",
    ),
    What.FIELD_ADDED: _Rule(
        _F, _F, _F, "old readers skip an unknown tag; new ones find the field unset in old data"
    ),
    What.KEY_ADDED: _Rule(
        _L, _B, _B, "old readers see different objects as one; old data lacks a part of the key"
    ),
    What.FIELD_REMOVED: _Rule(
        _L, _F, _F, "old readers find the field unset; new ones skip its tag in old data"
    ),
    What.FIELD_DROPPED: _Rule(
        _L,
        _F,
        _F,
        "like a removed field, but its tag may be reused by mistake: mark the field removed",
    ),
    What.KEY_REMOVED: _Rule(
        _B, _L, _B, "old readers reject an object that lacks a part of its key; identities change"
    ),
    What.KEY_STRUCT_CHANGED: _Rule(
        _B, _B, _B, "the bytes of the struct are the key, so one object becomes two"
    ),
    What.FIELD_RENAMED: _Rule(
        _F, _F, _F, "the tag is transmitted; only JSON, filters and programs use the name"
    ),
    What.FIELD_RETAGGED: _Rule(
        _B, _B, _B, "each side uses its own tag: it misses the value or reads another one"
    ),
    What.TAG_TAKEN_OVER: _Rule(
        _B, _B, _B, "each side reads one as the other, without an error if the bytes fit"
    ),
    What.TAG_REUSED: _Rule(
        _F, _F, _B, "data from before the removal has something else under this tag"
    ),
    What.TAG_RESERVED: _Rule(_F, _F, _F, "nothing is transmitted under the tag"),
    What.TAG_RELEASED: _Rule(
        _F, _F, _F, "nothing is transmitted under the tag, but it may now be reused by mistake"
    ),
    What.RESERVATION_EDITED: _Rule(_F, _F, _F, "nothing is transmitted under the tag"),
    What.BECAME_KEY: _Rule(
        _L, _B, _B, "old readers see different objects as one; old data may lack the field"
    ),
    What.NO_LONGER_KEY: _Rule(
        _B, _L, _B, "old readers need it in every update and remove; several objects become one"
    ),
    What.ORDER_CHANGED: _Rule(_F, _F, _F, "readers accept any order; only the bytes differ"),
    What.BECAME_CACHED: _Rule(
        _F, _F, _F, "programs that connect later now receive the objects too"
    ),
    What.BECAME_UNCACHED: _Rule(
        _L, _F, _L, "programs that connect later receive nothing, and a remove is refused"
    ),
    What.BECAME_INTERNAL: _Rule(
        _B, _F, _F, "internal types are never described: a program must have them built in"
    ),
    What.NO_LONGER_INTERNAL: _Rule(_F, _F, _F, "the type is described on each connection now"),
    What.BECAME_SUBSTRUCT_ONLY: _Rule(
        _L, _B, _B, "objects of it can no longer be published or subscribed"
    ),
    What.NO_LONGER_SUBSTRUCT_ONLY: _Rule(
        _L, _F, _F, "old programs cannot subscribe to objects of it"
    ),
    What.BECAME_PERSISTENT: _Rule(
        _F, _F, _F, "from now on objects survive a restart of their node"
    ),
    What.NO_LONGER_PERSISTENT: _Rule(
        _F, _F, _L, "objects do not survive a restart of their node any more"
    ),
    What.CLEANUP_CHANGED: _Rule(
        _F, _F, _F, "it decides whether objects are removed when their last publisher disconnects"
    ),
    What.LOCAL_CHANGED: _Rule(
        _F, _F, _F, "it decides only the scope, whose change is reported if there is one"
    ),
    What.SCOPE_NARROWED: _Rule(
        _L, _F, _F, "programs of other nodes or sites no longer receive the objects"
    ),
    What.SCOPE_WIDENED: _Rule(_F, _F, _F, "objects are distributed further than before"),
    What.SCOPE_WRITTEN: _Rule(_F, _F, _F, "objects are distributed as far as before"),
    What.ELEMENT_ADDED: _Rule(
        _B, _F, _F, "an unknown tag makes the whole object unreadable for an old reader"
    ),
    What.ELEMENT_REMOVED: _Rule(
        _F, _B, _B, "its tag is unknown to new readers and makes the whole object unreadable"
    ),
    What.ELEMENT_RENAMED: _Rule(
        _F, _F, _F, "the tag is transmitted; only JSON, filters and programs use the name"
    ),
    What.KEY_ELEMENT_RENAMED: _Rule(
        _L, _L, _L, "the name is part of the subject: subscribers of one never receive the other"
    ),
    What.ELEMENT_RETAGGED: _Rule(
        _B, _B, _B, "the tag is transmitted: each side reads it as another element or as none"
    ),
    What.VALUE_CHANGED: _Rule(
        _F, _F, _F, "values are not transmitted; programs that compute with them see the change"
    ),
    What.DEFAULT_CHANGED: _Rule(
        _F, _F, _F, "it is set when an object is made, not when it is read"
    ),
    What.CONSTRUCTOR_CHANGED: _Rule(_F, _F, _F, "only calls of the constructor change"),
    What.DEPRECATION_CHANGED: _Rule(_F, _F, _F, "it is advice for people"),
    What.OPTIONS_CHANGED: _Rule(_F, _F, _F, "skerry gives these options no meaning"),
    What.DOCUMENTATION_CHANGED: _Rule(_F, _F, _F, "it is text for people"),
}
"""Every kind of change, except for those of a field's type, about which `reads` decides."""


def change(what: What, where: str, detail: str) -> Change:
    """A change with the effects of its kind."""
    rule = _RULES[what]
    return Change(
        what=what,
        where=where,
        detail=detail,
        old_reader=rule.old_reader,
        new_reader=rule.new_reader,
        stored=rule.stored,
        why=rule.why,
    )
