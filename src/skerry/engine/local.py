"""A space inside one program: publish, subscribe and current objects by function call.

It carries the same updates as every other way through skerry, so a program that starts with it
changes nothing but how it gets its space when others join.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skerry.codec.envelope import CREATE, OPERATION_NAMES, REMOVE, UPDATE, Update
from skerry.codec.subjects import default_subject
from skerry.engine.dispatch.cache import Cache, Entry
from skerry.errors import LocalProtocolError
from skerry.ids import NODE_CLIENT
from skerry.objects.base import Struct, codec_of, selection
from skerry.schema.fingerprint import fingerprint
from skerry.schema.registry import Registry

__all__ = ["Container", "LocalEvent", "LocalSpace", "Subscription"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEvent:
    """Something happened to an object."""

    operation: str
    """`create`, `update` or `remove`."""
    object: Any
    """The whole object as it is now, or was when it was removed."""
    update: Update
    """What was published."""


class LocalSpace:
    """One space of typed objects within a program. `now_ns` gives wall time in nanoseconds.

    Everybody hears of all updates in one order. So what a callback publishes is delivered after
    the update that it was called with has reached everybody.
    """

    def __init__(
        self, now_ns: Callable[[], int], *, name: str = "local", cache: Cache | None = None
    ) -> None:
        self._now_ns = now_ns
        self._name = name
        self._cache = cache or Cache()
        self._registry = Registry()
        self._subscriptions: dict[str, list[Subscription]] = {}
        self._position = 0
        self._undelivered: deque[tuple[Update, bytes]] = deque()
        self._is_delivering = False

    def publish(self, obj: Struct, *, only: Iterable[str] | None = None) -> Update:
        """Create the object, or update those of its fields that are set or named in `only`."""
        mask = int(obj.attributes if only is None else selection(type(obj), only))
        return self._take(obj, UPDATE, mask)

    def remove(self, obj: Struct) -> Update:
        """Remove the object that has this key."""
        if not obj.descriptor.flags.cached:
            raise LocalProtocolError(f"{obj.descriptor.name} is not cached: nothing to remove")
        return self._take(obj, REMOVE, obj.descriptor.key_mask)

    def container(self, cls: type[Struct]) -> Container:
        """The current objects of a type, live."""
        self._registry.add(cls.descriptor, origin="a container")
        return Container(self._cache, cls)

    def subscribe(
        self, cls: type[Struct], callback: Callable[[LocalEvent], object]
    ) -> Subscription:
        """Tell the callback of each change from now on, after what is there already.

        An error that a callback raises reaches who published, after everybody was told.
        """
        self._registry.add(cls.descriptor, origin="a subscription")
        subscription = Subscription(cls, callback, self._subscriptions)
        for key, entry in self._cache.objects(cls.descriptor.name):
            subscription.tell(self._replayed(cls, key, entry), entry.payload)
        return subscription

    def _take(self, obj: Struct, operation: int, present: int) -> Update:
        cls, struct = type(obj), obj.descriptor
        if struct.flags.substruct_only:
            raise LocalProtocolError(f"{struct.name} is only for use inside other structs")
        self._registry.add(struct, origin="a publisher")
        codec = codec_of(cls)
        payload = codec.encode_only(obj, present)
        pieces = codec.split(payload)
        missing = struct.key_mask & ~pieces.present
        if missing:
            names = ", ".join(f.name for f in struct.key_fields if missing >> f.tag & 1)
            raise LocalProtocolError(f"{struct.name} cannot be published without its key {names}")
        update = Update(
            space=self._name,
            type_name=struct.name,
            subject=default_subject(codec.plan, pieces),
            fingerprint=fingerprint(struct),
            operation=operation if struct.flags.cached else CREATE,
            present=present,
            key=codec.key_of(pieces),
            payload=payload,
            sender=NODE_CLIENT,
            position=self._position + 1,
            time_ns=self._now_ns(),
        )
        if struct.flags.cached:
            happened = self._cache.apply(update, codec)
            if happened is None:
                return update
            update = update.replace(operation=happened[0])
            payload = happened[1].payload
        self._position = update.position
        self._undelivered.append((update, payload))
        self._deliver()
        return update

    def _deliver(self) -> None:
        if self._is_delivering:
            return
        self._is_delivering = True
        errors: list[Exception] = []
        try:
            while self._undelivered:
                update, payload = self._undelivered.popleft()
                for subscription in list(self._subscriptions.get(update.type_name, ())):
                    try:
                        subscription.tell(update, payload)
                    except Exception as error:  # One callback must not rob another.
                        errors.append(error)
        finally:
            self._is_delivering = False
        if len(errors) > 1:
            raise ExceptionGroup("several subscribers failed", errors)
        if errors:
            raise errors[0]

    def _replayed(self, cls: type[Struct], key: bytes, entry: Entry) -> Update:
        """The update that would have made the object as it is."""
        return Update(
            space=self._name,
            type_name=cls.descriptor.name,
            subject=entry.subject,
            fingerprint=fingerprint(cls.descriptor),
            operation=CREATE,
            present=codec_of(cls).split(entry.payload).present,
            key=key,
            payload=entry.payload,
            sender=entry.modified_from,
            position=entry.position,
            time_ns=entry.modified_ns,
        )


class Subscription:
    """Somebody who is told of changes, until `close`."""

    def __init__(
        self,
        cls: type[Struct],
        callback: Callable[[LocalEvent], object],
        subscriptions: dict[str, list[Subscription]],
    ) -> None:
        self._class = cls
        self._callback = callback
        self._all = subscriptions.setdefault(cls.descriptor.name, [])
        self._all.append(self)

    def tell(self, update: Update, payload: bytes) -> None:
        """Call back with the whole object, of the subscriber's own class."""
        name = OPERATION_NAMES[update.operation]
        obj = self._class.decode(payload)
        self._callback(LocalEvent(operation=name, object=obj, update=update))

    def close(self) -> None:
        """Tell nothing more."""
        if self in self._all:
            self._all.remove(self)


class Container(Mapping[bytes, Any]):
    """Live view of the current objects of a type, by canonical key."""

    def __init__(self, cache: Cache, cls: type[Struct]) -> None:
        self._cache = cache
        self._class = cls

    def __getitem__(self, key: bytes) -> Any:
        return self._class.decode(self.info(key).payload)

    def __iter__(self) -> Iterator[bytes]:
        return (key for key, _ in self._cache.objects(self._class.descriptor.name))

    def __len__(self) -> int:
        return self._cache.count(self._class.descriptor.name)

    def info(self, key: bytes) -> Entry:
        """When the object was made and changed, and by whom."""
        entry = self._cache.get(self._class.descriptor.name, key)
        if entry is None:
            raise KeyError(key)
        return entry
