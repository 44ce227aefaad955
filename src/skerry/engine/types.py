"""The types a node knows, and what it keeps of each.

A type becomes known when a client describes it or when its objects come back from the storage. The
first definition that a client brings stays, and another one is a conflict, which is told and kept
to be shown. A definition that only the storage knows gives way to the first one that a client
brings, if the stored objects can be taken over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from skerry.codec.pieces import split_whole
from skerry.engine.adoption import Adoption, plan_adoption, with_part
from skerry.engine.cache import Entry
from skerry.engine.events import TypeAdopted, TypeConflict
from skerry.engine.hub import Hub
from skerry.engine.persistence import Journal, StoredObject, StoredType, stored_type
from skerry.engine.routing import Routing
from skerry.engine.topics import Keeper, Topic
from skerry.errors import SchemaMismatchError
from skerry.objects.base import Struct, codec_of
from skerry.objects.classes import class_of
from skerry.objects.descriptors import from_description
from skerry.protocol.machine import Event
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types
from skerry.schema.model import EnumType, NamedType, StructType, content_of, dependencies
from skerry.schema.registry import Registry

__all__ = ["SPECIAL_TYPES", "Learned", "Types", "common_fields"]

SPECIAL_TYPES: Final = frozenset(
    {
        "DotsAuthentication",
        "DotsAuthenticationPolicy",
        "DotsClearCache",
        "DotsClient",
        "DotsClientStatistics",
        "DotsDaemonStatus",
        "DotsDescriptorRequest",
        "DotsEcho",
        "DotsMember",
        "EnumDescriptorData",
        "SkerryCall",
        "SkerryClaim",
        "SkerryClaimed",
        "SkerryConflict",
        "SkerryHolder",
        "SkerryLedger",
        "SkerryLink",
        "SkerryLoss",
        "SkerryPicture",
        "SkerryRefusal",
        "SkerryRequest",
        "SkerryResponse",
        "StructDescriptorData",
    }
)
"""Types by which clients speak with the node itself, and by which it speaks of itself and them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What came of the description of a type."""

    type: NamedType
    """The definition that is in force then."""
    offered: NamedType
    """The one that came."""
    conflict: SchemaMismatchError | None = None
    """In what it differs from the one that came."""
    redefined: tuple[str, ...] = ()
    """Types whose stored definition gave way: what clients were told of them holds no more."""


_STORAGE: Final = "the storage"


class Types:
    """All types of a node; `events` is where conflicts are told."""

    def __init__(
        self, hub: Hub, routing: Routing, journal: Journal | None, events: list[Event]
    ) -> None:
        self.registry = Registry()
        self._hub = hub
        self._routing = routing
        self._journal = journal
        self._events = events
        self._stored: dict[str, StructType] = {}
        """Types of stored objects that no client has described yet."""
        if journal is not None:
            hub.keeper = _JournalKeeper(hub, journal)
        for type_ in internal_types().values():
            self.registry.add(type_, origin="skerry")

    def topic(self, name: str) -> Topic | None:
        """What the node keeps of a struct type, if it knows one of that name."""
        topic = self._hub.topics.get(name)
        if topic is not None:
            return topic
        type_ = self.registry.get(name)
        return self._make_topic(type_) if isinstance(type_, StructType) else None

    def class_of(self, topic: Topic) -> type[Struct]:
        """The class of a topic's objects."""
        cls: type[Struct] = class_of(topic.type)
        return cls

    def learn(self, message: Any, *, origin: str) -> Learned:
        """Take a description; what came of it."""
        found = from_description(message, self.registry)
        redefined: tuple[str, ...] = ()
        if found.name in self.registry and self._stored:
            redefined = self._adopt(found, origin)
        try:
            self.registry.add(found, origin=origin)
        except SchemaMismatchError as error:
            # The first definition stays; the registry keeps the other to be shown.
            self._events.append(TypeConflict(type_name=found.name, detail=str(error)))
            return Learned(type=self.registry[found.name], offered=found, conflict=error)
        if self.registry.origin(found.name) == _STORAGE:
            # Somebody lives by it now, so it gives way to no other.
            self.registry.claim(found.name, origin=origin)
        self._stored.pop(found.name, None)
        return Learned(type=found, offered=found, redefined=redefined)

    def restore(self, stored: StoredType | StoredObject) -> None:
        """Take back a type or, after its type, an object."""
        if isinstance(stored, StoredType):
            type_ = stored_type(stored)
            for part in (*dependencies(type_), type_):
                if part.name not in self.registry:
                    self.registry.add(part, origin=_STORAGE)
            self._stored[type_.name] = type_
            return
        topic = self.topic(stored.type_name)
        assert topic is not None, f"objects of {stored.type_name} came before their type"
        entry = Entry(
            payload=stored.payload,
            present=split_whole(topic.plan, stored.payload).present,
            subject=stored.subject,
            created_ns=stored.created_ns,
            created_from=stored.created_from,
            modified_ns=stored.modified_ns,
            modified_from=stored.modified_from,
            sent_ns=stored.sent_ns,
            position=stored.position,
        )
        self._hub.cache.restore(topic.shelf, stored.key, entry)

    def _make_topic(self, type_: StructType) -> Topic:
        flags = type_.flags
        topic = Topic(
            type_,
            codec_of(class_of(type_)).plan,
            self._hub.cache.shelf(type_.name),
            is_cached=flags.cached,
            is_persistent=flags.persistent and flags.cached,
            is_special=type_.name in SPECIAL_TYPES or flags.substruct_only,
        )
        self._hub.topics[type_.name] = topic
        self._routing.came(topic)
        return topic

    def _redefined(self, type_: StructType) -> Topic:
        """The topic of a type that got another definition; who holds on to it need not know."""
        topic = self._hub.topics.get(type_.name)
        if topic is None:
            return self._make_topic(type_)
        topic.type = type_
        topic.plan = codec_of(class_of(type_)).plan
        topic.forget_routes()
        return topic

    # -- stored objects under a new definition

    def _adopt(self, found: NamedType, origin: str) -> tuple[str, ...]:
        """Let a client's definition take the place of a stored one, if all objects can follow.

        Gives the names of all types that are others then.
        """
        if fingerprint(self.registry[found.name]) == fingerprint(found):
            return ()
        if self.registry.origin(found.name) != _STORAGE:
            return ()
        concerned = [old for old in self._stored.values() if _uses(old, found.name)]
        plans = [plan_adoption(old, _with(old, found)) for old in concerned]
        # What has no objects is free to change: nothing can be lost by it.
        if not all(plan.is_possible or not self._has_objects(plan.old.name) for plan in plans):
            return ()
        self.registry.replace(found, origin=origin)
        for plan in plans:
            self._take_over(plan)
        return tuple({found.name: None} | {plan.new.name: None for plan in plans})

    def _take_over(self, plan: Adoption) -> None:
        name = plan.new.name
        if fingerprint(self.registry[name]) != fingerprint(plan.new):
            self.registry.replace(plan.new, origin=_STORAGE)
        self._stored[name] = plan.new
        topic = self._redefined(plan.new)
        if self._journal is not None:
            self._journal.describe(plan.new)
        for key, entry in topic.shelf.objects.items():
            payload = plan.convert(entry.payload)
            self._hub.cache.rewrite(entry, payload, split_whole(topic.plan, payload).present)
            if self._journal is not None:
                self._journal.put(plan.new, key, entry)
        self._events.append(
            TypeAdopted(
                type_name=name,
                object_count=len(topic.shelf.objects),
                losses=tuple(str(change) for change in plan.losses),
            )
        )

    def _has_objects(self, name: str) -> bool:
        return bool(self._hub.cache.shelf(name).objects)


class _JournalKeeper(Keeper):
    """Hands what is to be stored to the journal."""

    def __init__(self, hub: Hub, journal: Journal) -> None:
        super().__init__()
        self._hub = hub
        self._journal = journal

    def check(self) -> None:
        """LimitExceeded when the storage is too far behind."""
        if self._journal.is_full:
            raise self._journal.shortage()

    def keep(self, topic: Topic, key: bytes, entry: Entry | None) -> int:
        """An object changed or went."""
        if entry is None:
            self._journal.drop(topic.name, key, position=int(self._hub.position) + 1)
        else:
            self._journal.put(topic.type, key, entry)
        return self._journal.number


def common_fields(known: NamedType, other: NamedType, differing: frozenset[str]) -> int:
    """Which fields two definitions of a type have in common, as a mask; -1 for all of `known`.

    A field is not if the type it is of is among the `differing`. Without all keys there is no
    object, and so nothing in common. Of an enum it is all or nothing.
    """
    if isinstance(known, EnumType):
        ours = {(element.tag, element.name) for element in known.elements}
        is_whole = isinstance(other, EnumType) and ours <= {(e.tag, e.name) for e in other.elements}
        return -1 if is_whole else 0
    if not isinstance(other, StructType):
        return 0
    theirs = {field.tag: field for field in other.fields}
    common = 0
    for field in known.fields:
        same = theirs.get(field.tag)
        if same is None or (same.type.name, same.is_key) != (field.type.name, field.is_key):
            continue
        if content_of(field.type).name not in differing:
            common |= 1 << field.tag
    if known.key_mask & ~common or other.key_mask & ~common:
        return 0
    return -1 if len(known.fields) == common.bit_count() else common


def _uses(struct: StructType, name: str) -> bool:
    return struct.name == name or any(part.name == name for part in dependencies(struct))


def _with(old: StructType, found: NamedType) -> StructType:
    if isinstance(found, StructType) and found.name == old.name:
        return found
    return with_part(old, found)
