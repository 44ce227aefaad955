"""A space inside one program: publish, subscribe and current objects by function call.

It carries the same updates as every other way through skerry, so a program that starts with it
changes nothing but how it gets its space when others join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skerry.codec.envelope import CREATE, OPERATION_NAMES, REMOVE, UPDATE, Update
from skerry.codec.subjects import default_subject
from skerry.engine.cache import Cache, Entry
from skerry.errors import LocalProtocolError
from skerry.ids import NODE_CLIENT
from skerry.objects.base import Struct, codec_of, selection
from skerry.schema.fingerprint import fingerprint

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
    """One space of typed objects within a program. `now_ns` gives wall time in nanoseconds."""

    def __init__(self, now_ns: Callable[[], int], *, name: str = "local") -> None:
        self._now_ns = now_ns
        self._name = name
        self._cache = Cache()
        self._subscriptions: dict[str, list[Subscription]] = {}
        self._position = 0

    def publish(self, obj: Struct, *, only: Iterable[str] | None = None) -> Update:
        """Create the object, or update those of its fields that are set or named in `only`."""
        cls = type(obj)
        mask = obj.attributes if only is None else selection(cls, only)
        return self._pass_on(cls, UPDATE, int(mask), codec_of(cls).encode_only(obj, int(mask)))

    def remove(self, obj: Struct) -> Update:
        """Remove the object that has this key."""
        if not obj.descriptor.flags.cached:
            raise LocalProtocolError(f"{obj.descriptor.name} is not cached: nothing to remove")
        mask = obj.descriptor.key_mask
        return self._pass_on(type(obj), REMOVE, mask, codec_of(type(obj)).encode_only(obj, mask))

    def container(self, cls: type[Struct]) -> Container:
        """The current objects of a type, live."""
        return Container(self._cache, cls)

    def subscribe(
        self, cls: type[Struct], callback: Callable[[LocalEvent], object]
    ) -> Subscription:
        """Tell the callback of each change from now on, after what is there already.

        An error that a callback raises reaches who published.
        """
        subscription = Subscription(cls, callback, self._subscriptions)
        for key, entry in self._cache.objects(cls.descriptor.name):
            update = self._update(cls, CREATE, entry.payload, key=key)
            subscription.tell("create", entry.payload, update)
        return subscription

    def _pass_on(self, cls: type[Struct], operation: int, present: int, payload: bytes) -> Update:
        struct = cls.descriptor
        if struct.flags.substruct_only:
            raise LocalProtocolError(f"{struct.name} is only for use inside other structs")
        update = self._update(cls, operation, payload, present=present)
        self._position = update.position
        if not struct.flags.cached:
            self._tell(update.replace(operation=CREATE), "create", payload)
            return update
        happened = self._cache.apply(update, codec_of(cls))
        if happened is not None:
            done, entry = happened
            update = update.replace(operation=done)
            self._tell(update, OPERATION_NAMES[done], entry.payload)
        return update

    def _update(
        self,
        cls: type[Struct],
        operation: int,
        payload: bytes,
        *,
        present: int | None = None,
        key: bytes | None = None,
    ) -> Update:
        codec, struct = codec_of(cls), cls.descriptor
        pieces = codec.split(payload)
        missing = struct.key_mask & ~pieces.present
        if missing:
            names = ", ".join(f.name for f in struct.key_fields if missing >> f.tag & 1)
            raise LocalProtocolError(f"{struct.name} cannot be published without its key {names}")
        return Update(
            space=self._name,
            type_name=struct.name,
            subject=default_subject(codec.plan, pieces),
            fingerprint=fingerprint(struct),
            operation=operation,
            present=pieces.present if present is None else present,
            key=codec.key_of(pieces) if key is None else key,
            payload=payload,
            sender=NODE_CLIENT,
            position=self._position + 1,
            time_ns=self._now_ns(),
        )

    def _tell(self, update: Update, operation: str, payload: bytes) -> None:
        for subscription in list(self._subscriptions.get(update.type_name, ())):
            subscription.tell(operation, payload, update)


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

    def tell(self, operation: str, payload: bytes, update: Update) -> None:
        """Call back with an object of the subscriber's own class."""
        obj = self._class.decode(payload)
        self._callback(LocalEvent(operation=operation, object=obj, update=update))

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
