"""The types that a node knows, and the topics of those in use.

A type becomes known when a client describes it or when its objects are loaded from the storage.
`engine.types.definitions` decides which definition is served; this module keeps a topic for each
struct type in use and updates it when the served definition changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skerry.codec.pieces import split_whole
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.routing import Routing
from skerry.engine.dispatch.topics import ObjectKeeper, Topic
from skerry.engine.persistence import Journal, StoredObject, StoredType, stored_type
from skerry.engine.types.definitions import Definitions
from skerry.errors import DecodeError
from skerry.objects.base import Struct, codec_of
from skerry.objects.classes import class_of
from skerry.schema.internal import internal_types
from skerry.schema.model import StructType
from skerry.schema.union import unite_deep

UNKNOWN_SCAN_COUNT_MAX: Final = 2_000
"""Objects with undescribed tags that are examined in one step when a client describes these tags:
some milliseconds."""

CLIENT_TYPES: Final = frozenset(
    {
        "DotsContinuousRecorderStatus",
        "DotsDumpContinuousRecorder",
        "DotsRecordHeader",
        "SkerryBytes",
    }
)
"""Internal types whose objects clients publish to each other, like those of other types."""

SPECIAL_TYPES: Final = (
    frozenset(name for name, type_ in internal_types().items() if isinstance(type_, StructType))
    - CLIENT_TYPES
)
"""All other internal types: messages of clients to the node, and objects that the node publishes
about itself and its clients. Only the node publishes, removes and clears them."""

_UNDESCRIBED: Final = "objects have values that no definition described; remove them first"
_WORK_PER_TOPIC: Final = 500
"""Work units for a topic that is made or renewed: a class and a codec are made of its type."""


class TypeTable:
    def __init__(
        self,
        dispatcher: Dispatcher,
        routing: Routing,
        journal: Journal | None,
        has_published: Callable[[int, str], bool],
    ) -> None:
        self.registry = Definitions(
            has_objects=self._has_objects,
            misfit=self._misfit,
            has_published=has_published,
            is_needed=self._is_needed,
            outdated=dispatcher.outdate,
            removed=self._removed,
        )
        self._dispatcher = dispatcher
        self._routing = routing
        self._work = 0
        self._stored: dict[str, StoredType] = {}
        """Stored definitions of types of which no object was loaded yet."""
        if journal is not None:
            dispatcher.object_keeper = _JournalKeeper(dispatcher, journal)

    def topic(self, name: str) -> Topic | None:
        """The topic of a struct type; None if the node does not know a struct of that name."""
        topic = self._dispatcher.topics.get(name)
        if topic is not None:
            return topic
        type_ = self.registry.get(name)
        if not isinstance(type_, StructType):
            return None
        outdated = self._dispatcher.outdated.pop(name, None)
        topic = self._make_topic(type_) if outdated is None else self._renew(outdated, type_)
        self._dispatcher.topics[name] = topic
        if not type_.flags.internal:
            self._work += _WORK_PER_TOPIC
        return topic

    def is_cleaned_up(self, name: str) -> bool:
        """Whether objects of a type are removed when the client that changed them disconnects."""
        type_ = self.registry.get(name)
        return isinstance(type_, StructType) and type_.flags.cleanup and type_.flags.cached

    def take_work(self) -> int:
        """The work units for topics that were made or renewed since the last call."""
        work, self._work = self._work, 0
        return work

    def class_of(self, topic: Topic) -> type[Struct]:
        """The class of a topic's objects."""
        cls: type[Struct] = class_of(topic.type)
        return cls

    def restore(self, stored: StoredType | StoredObject) -> None:
        """Load a type from the storage or, after its type, an object.

        A type without objects is not loaded: nothing uses its definition.
        """
        if isinstance(stored, StoredType):
            self._stored[stored.name] = stored
            return
        definition = self._stored.pop(stored.type_name, None)
        if definition is not None:
            self.registry.restore(stored_type(definition))
        topic = self.topic(stored.type_name)
        assert topic is not None, f"objects of {stored.type_name} were loaded before their type"
        pieces = split_whole(topic.plan, stored.payload)
        entry = Entry(
            payload=stored.payload,
            present=pieces.present,
            subject=stored.subject,
            created_ns=stored.created_ns,
            created_from=stored.created_from,
            modified_ns=stored.modified_ns,
            modified_from=stored.modified_from,
            sent_ns=stored.sent_ns,
            position=stored.position,
        )
        if pieces.unknown:
            topic.type_cache.unknown_keys.add(stored.key)
        self._dispatcher.cache.restore(topic.type_cache, stored.key, entry)

    def _make_topic(self, type_: StructType) -> Topic:
        flags = type_.flags
        topic = Topic(
            type_,
            codec_of(class_of(type_)).plan,
            self._dispatcher.cache.type_cache(type_.name),
            is_cached=flags.cached,
            is_persistent=flags.persistent and flags.cached,
            is_special=type_.name in SPECIAL_TYPES or flags.substruct_only,
        )
        topic.type_cache.index_writers(flags.cleanup)
        self._routing.topic_added(topic)
        return topic

    def _renew(self, topic: Topic, type_: StructType) -> Topic:
        """The topic of a type that has another definition now; holders of the topic keep it.

        Its cached objects stay as they are: every definition that is served reads them.
        """
        if not isinstance(unite_deep(topic.type, type_), StructType):
            topic.epoch += 1
        flags = type_.flags
        topic.redefine(
            type_,
            codec_of(class_of(type_)).plan,
            is_cached=flags.cached,
            is_persistent=flags.persistent and flags.cached,
        )
        topic.type_cache.index_writers(flags.cleanup)
        self._routing.topic_redefined(topic)
        return topic

    def _has_objects(self, name: str) -> bool:
        return self._dispatcher.cache.count(name) > 0

    def _misfit(self, name: str, union: StructType) -> str:
        """Why a union cannot serve objects of a type: they have undescribed values under its tags.

        The union is one of the type itself, or one of a struct inside.
        """
        type_cache = self._dispatcher.cache.type_cache(name)
        topic = self._dispatcher.topics.get(name) or self._dispatcher.outdated.get(name)
        if not type_cache.unknown_keys or topic is None:
            return ""
        if len(type_cache.unknown_keys) > UNKNOWN_SCAN_COUNT_MAX:
            return f"{name}: {_UNDESCRIBED}"
        plan = codec_of(class_of(union)).plan if union.name == name else topic.plan
        for key in list(type_cache.unknown_keys):
            try:
                pieces = split_whole(plan, type_cache.objects[key].payload)
            except DecodeError as error:
                return f"{name}: {_UNDESCRIBED}: {error}"
            # The values inside a struct are not examined one by one.
            if union.name != name and pieces.unknown & plan.mask:
                return f"{name}: {_UNDESCRIBED}"
        return ""

    def _is_needed(self, name: str) -> bool:
        """Whether clients have claims on a type or filtered subscriptions to it."""
        topic = self._dispatcher.topics.get(name) or self._dispatcher.outdated.get(name)
        return topic is not None and (topic.owners is not None or self._routing.has_filtered(name))

    def _removed(self, name: str) -> None:
        self._dispatcher.topics.pop(name, None)
        self._dispatcher.outdated.pop(name, None)
        self._dispatcher.cache.forget_type(name)


class _JournalKeeper(ObjectKeeper):
    """Passes changes of persistent objects to the journal."""

    def __init__(self, dispatcher: Dispatcher, journal: Journal) -> None:
        super().__init__()
        self._dispatcher = dispatcher
        self._journal = journal

    def check(self) -> None:
        """Raise LimitExceeded if the journal is full."""
        if self._journal.is_full:
            raise self._journal.shortage()

    def keep(self, topic: Topic, key: bytes, entry: Entry | None) -> int:
        """Pass on a changed or removed object. Returns the number of the change."""
        if entry is None:
            self._journal.drop(topic.name, key, position=int(self._dispatcher.position) + 1)
        else:
            self._journal.put(topic.type, key, entry)
        return self._journal.number
