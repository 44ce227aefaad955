"""A client's view of a space, as a pure machine: what it published, what it sees, what it was told.

It lives on one connection. The asyncio and the blocking space carry its bytes and call back with
its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from skerry.errors import CodecError, LocalProtocolError, SchemaError
from skerry.objects.base import Struct, codec_of, selection
from skerry.objects.classes import class_of
from skerry.objects.descriptors import from_description
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import (
    Accepted,
    ClientConnection,
    Connected,
    Rejected,
    SecretMissing,
)
from skerry.protocol.access.connection import Arrival, Broken, Ended, Stage
from skerry.protocol.access.header import Header
from skerry.schema.internal import internal_types
from skerry.schema.model import StructType
from skerry.schema.registry import Registry

__all__ = ["Container", "Event", "SpaceCore", "Subscription"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something happened to an object."""

    operation: str
    """`create`, `update` or `remove`."""
    object: Any
    """The whole object as it is now, or was when it was removed."""
    update: Any
    """What was published: the fields that changed, and the key."""
    header: Header
    is_from_cache: bool
    """It was there before we asked."""
    is_from_myself: bool


class Container(Mapping[bytes, Any]):
    """Live view of the current objects of a type, by canonical key."""

    def __init__(self, cls: type[Struct]) -> None:
        self.cls = cls
        self.is_complete = False
        """Whether all that was there when we asked has arrived."""
        self._objects: dict[bytes, bytes] = {}

    def __getitem__(self, key: bytes) -> Any:
        return self.cls.decode(self._objects[key])

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._objects)

    def __len__(self) -> int:
        return len(self._objects)

    def apply(self, header: Header, payload: bytes) -> tuple[str, bytes] | None:
        """Take a transmission: what happened, and the whole object; None when nothing did."""
        codec = codec_of(self.cls)
        key = codec.key(payload)
        known = self._objects.get(key)
        if header.remove_obj == 1:
            if known is None:
                return None
            del self._objects[key]
            return "remove", codec.merge(known, payload, int(header.attributes))
        if not self.cls.descriptor.flags.cached:
            return "create", payload
        merged = payload if known is None else codec.merge(known, payload, int(header.attributes))
        self._objects[key] = merged
        return ("create" if known is None else "update"), merged


class Subscription:
    """Somebody who is told of the objects of a type, until `close`."""

    def __init__(
        self, cls: type[Struct], callback: Callable[[Event], object], core: SpaceCore
    ) -> None:
        self.cls = cls
        self.callback = callback
        self._core = core

    def close(self) -> None:
        """Tell nothing more."""
        self._core.unsubscribe(self)


class SpaceCore:
    """One space on one connection."""

    def __init__(self, connection: ClientConnection, *, types: Iterable[type[Struct]] = ()) -> None:
        self.connection = connection
        self.registry = Registry()
        for type_ in internal_types().values():
            self.registry.add(type_, origin="skerry")
        self.failure: str | None = None
        """Why the connection is over, once it is."""
        self._classes: dict[str, type[Struct]] = {}
        self._containers: dict[str, Container] = {}
        self._subscriptions: dict[str, list[Subscription]] = {}
        self._preload: list[str] = []
        self._echoes: set[int] = set()
        self._echo_count = 0
        for cls in types:
            self.learn(cls)

    @property
    def is_connected(self) -> bool:
        """Whether the handshake is over, and what was asked for early is there."""
        return self.connection.stage is Stage.CONNECTED

    def learn(self, cls: type[Struct]) -> None:
        """Use this class for objects of its type."""
        self.registry.add(cls.descriptor, origin="this program")
        self._classes.setdefault(cls.descriptor.name, cls)

    def publish(
        self, obj: Struct, now_s: float, *, only: Iterable[str] | None = None, remove: bool = False
    ) -> None:
        """Send an object, what is selected of it, or its removal."""
        cls, struct = type(obj), obj.descriptor
        if struct.flags.substruct_only:
            raise LocalProtocolError(f"{struct.name} is only for use inside other structs")
        missing = [f.name for f in struct.key_fields if not obj.is_set(f.name)]
        if missing:
            names = ", ".join(missing)
            raise LocalProtocolError(f"{struct.name} cannot be published without its key {names}")
        if remove and not struct.flags.cached:
            raise LocalProtocolError(f"{struct.name} is not cached: nothing to remove")
        self.learn(cls)
        header = Header(struct.name)
        header.sent_time = now_s
        header.remove_obj = int(remove)
        if remove:
            header.attributes = struct.key_mask
        else:
            header.attributes = int(obj.attributes if only is None else selection(cls, only))
        payload = codec_of(cls).encode_only(obj, int(header.attributes))
        self.connection.send(header, payload, struct, now_s)

    def subscribe(
        self, cls: type[Struct], callback: Callable[[Event], object], now_s: float
    ) -> Subscription:
        """Call back for each object of a type that is there, and for each change from then on."""
        container = self.container(cls, now_s)
        subscription = Subscription(container.cls, callback, self)
        self._subscriptions.setdefault(cls.descriptor.name, []).append(subscription)
        for key in list(container):
            obj = container[key]
            header = Header(cls.descriptor.name)
            callback(
                Event(
                    operation="create",
                    object=obj,
                    update=obj,
                    header=header,
                    is_from_cache=True,
                    is_from_myself=False,
                )
            )
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Tell a subscription nothing more."""
        group = self._subscriptions.get(subscription.cls.descriptor.name, [])
        if subscription in group:
            group.remove(subscription)

    def container(self, cls: type[Struct], now_s: float) -> Container:
        """The current objects of a type; the node is asked for them the first time."""
        self.learn(cls)
        name = cls.descriptor.name
        container = self._containers.get(name)
        if container is None:
            container = self._containers[name] = Container(self._classes[name])
            if self.connection.stage is Stage.CONNECTING:
                self._preload.append(name)
            else:
                self._join(name, now_s)
        return container

    def echo(self, now_s: float) -> int:
        """Ask for a sign that everything sent before has been dealt with; gives its number."""
        self._echo_count += 1
        self._echoes.add(self._echo_count)
        message = internal_class("DotsEcho")(request=True, identifier=self._echo_count)
        self.connection.send_message(message, now_s)
        return self._echo_count

    def is_echoed(self, number: int) -> bool:
        """Whether that sign came."""
        return number not in self._echoes

    def receive(self, data: bytes, now_s: float) -> list[tuple[Subscription, Event]]:
        """Bytes from the node: who is to be told of what, in order."""
        told: list[tuple[Subscription, Event]] = []
        for item in self.connection.receive(data, now_s):
            if isinstance(item, Arrival):
                told += self._arrived(item.header, item.payload)
            elif isinstance(item, Accepted):
                for name in self._preload:
                    self._join(name, now_s)
                if item.has_preload:
                    self.connection.finish_joins(now_s)
            elif isinstance(item, Rejected):
                self.failure = "the node does not let us in"
            elif isinstance(item, SecretMissing):
                self.failure = "the node asks for a secret, and none was given"
            elif isinstance(item, Ended):
                self.failure = item.text or "the node ended the connection"
            elif isinstance(item, Broken):
                self.failure = f"the node broke the protocol in {item.message}: {item.detail}"
            else:
                assert isinstance(item, Connected)
        return told

    def _join(self, name: str, now_s: float) -> None:
        self.connection.describe(self.registry[name], now_s)
        self.connection.join(name, now_s)

    def _arrived(self, header: Header, payload: bytes) -> list[tuple[Subscription, Event]]:
        type_ = self.registry.get(header.type_name)
        if not isinstance(type_, StructType):
            # A host may forward what it never described; that is its business, not our end.
            return []
        try:
            if type_.flags.internal and type_.name in _SERVICES:
                self._served(type_.name, class_of(type_).decode(payload))
            container = self._containers.get(type_.name)
            if container is None:
                return []
            return self._changed(container, header, payload)
        except (CodecError, SchemaError) as error:
            self.failure = f"the node sent what is no {type_.name}: {error}"
            return []

    def _changed(
        self, container: Container, header: Header, payload: bytes
    ) -> list[tuple[Subscription, Event]]:
        happened = container.apply(header, payload)
        group = self._subscriptions.get(header.type_name)
        if happened is None or not group:
            return []
        operation, whole = happened
        event = Event(
            operation=operation,
            object=container.cls.decode(whole),
            update=container.cls.decode(payload),
            header=header,
            is_from_cache=header.from_cache >= 0,
            is_from_myself=header.sender == self.connection.client_id,
        )
        return [(subscription, event) for subscription in group]

    def _served(self, name: str, message: Any) -> None:
        if name == "DotsEcho":
            self._echoes.discard(message.identifier)
        elif name == "DotsCacheInfo":
            container = self._containers.get(message.typeName or "")
            if container is not None and message.endTransmission:
                container.is_complete = True
        else:
            found = from_description(message, self.registry)
            self.connection.note_described(found.name)
            self.registry.add(found, origin="the node")
            if isinstance(found, StructType):
                self._classes.setdefault(found.name, class_of(found))


_SERVICES = ("DotsEcho", "DotsCacheInfo", "StructDescriptorData", "EnumDescriptorData")
