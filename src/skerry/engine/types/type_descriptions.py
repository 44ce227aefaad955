"""Type descriptions that clients send and request."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator
from typing import Any, Final

from skerry.engine.admission.shared_quotas import Resource, open_part
from skerry.engine.clients import Client, Later
from skerry.engine.connections.service_host import ServiceHost
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.routing import Routing
from skerry.engine.dispatch.topics import Topic
from skerry.engine.events import DefinitionRefused, TypeChanged
from skerry.engine.types.definitions import Definitions
from skerry.engine.types.served_types import Definition
from skerry.engine.types.type_table import TypeTable
from skerry.limits import DESCRIBE_WORK, REPLAY_SLICE_BYTES, TYPE_COUNT_MAX
from skerry.objects.base import Struct
from skerry.objects.descriptors import from_description
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types
from skerry.schema.model import EnumType, NamedType, StructType
from skerry.schema.writer import write_type

DEFINITION_USER_COUNT_MAX: Final = 100
"""Clients that are named as users of a definition. The others are counted."""
UNUSABLE_TYPE_BYTES_MAX: Final = 1024 * 1024
"""Descriptions of types that a client may not use are kept up to this size, since these types may
be parts of others. The descriptions of all types of a large program are smaller."""

DESCRIPTION_MEMORY_FACTOR: Final = 16
"""Memory of a definition for each byte of its description: 263 bytes with eleven fields take 4 KB.
A definition that another client has described is shared, and counts once."""

_LISTED_COUNT: Final = 30
"""Definitions that are sent before other clients have their turn: some milliseconds."""
_GROUPS: Final = ("EnumDescriptorData", "StructDescriptorData")
_RELEASE_WORK: Final = 20
"""Work units for the release of a definition."""

_USES: Final = ("publish", "subscribe", "remove")
"""The actions for which a client needs to know a type."""


class TypeDescriptions:
    def __init__(
        self, node: ServiceHost, dispatcher: Dispatcher, routing: Routing, types: TypeTable
    ) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._routing = routing
        self._types = types

    def leaving(self, client: Client) -> Iterator[int]:
        """Release the definitions of a client that disconnected, step by step.

        Yields the work units of each step.
        """
        for _ in self._types.registry.forget(client.client_id):
            yield _RELEASE_WORK

    def take(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        message: Any = self._types.class_of(topic).decode(payload)
        reason = _reserved(message.name or "") or _excess(client, message.name or "", len(payload))
        if reason is not None:
            self._node.refuse(client, "describe", reason, now_ns)
            return
        known: ChainMap[str, NamedType] = ChainMap(
            client.connection.received,
            self._types.registry,  # type: ignore[arg-type]
        )
        described = from_description(message, known)
        own = self._types.registry.shared(described)
        memory = len(payload) * (DESCRIPTION_MEMORY_FACTOR if own is described else 1)
        more = memory - client.described_memory.get(own.name, 0)
        self._node.shares.take(client.holder, {Resource.TYPE_BYTES: more})
        client.described_memory[own.name] = memory
        client.note_described(own.name, len(payload))
        client.connection.note_received(own)
        self.register(client, own, now_ns)
        held = self._types.registry.held(client.client_id, own.name)
        if client.is_present and held is not None and held.is_accepted:
            self._pass_on(client, topic, own, header, payload, now_ns)

    def refusal(self, client: Client, type_name: str, now_ns: int) -> str | None:
        """Why updates of a type by a client are refused, if its definition is incompatible.

        A definition that is no longer used is replaced by the client's one.
        """
        registry = self._types.registry
        held = registry.held(client.client_id, type_name)
        if held is not None and not registry.is_blocked(client.client_id, type_name):
            before = registry.get(type_name)
            self.register(client, held.type, now_ns, is_publishing=True)
            if registry.get(type_name) is not before:
                self._announce(type_name, now_ns)
        conflict = registry.conflict(client.client_id, type_name)
        return None if conflict is None else str(conflict)

    def answer(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Answer a DotsDescriptorRequest: describe the types that the client does not know yet."""
        message: Any = self._types.class_of(topic).decode(payload)
        wanted, unwanted = frozenset(message.whitelist or ()), frozenset(message.blacklist or ())

        def names() -> Iterator[str]:
            registry = self._types.registry
            chosen = [name for name in wanted if name in registry] if wanted else registry
            return iter(sorted(name for name in chosen if name not in unwanted))

        def finish(now_s: float) -> None:
            client.answered(len(payload))
            info = internal_class("DotsCacheInfo")(endDescriptorRequest=True)
            client.connection.send_message(info, now_s)

        client.asked(len(payload))
        self._node.start(
            client,
            Later(lambda: _Descriptions(client, self._types.registry, names(), finish)),
            now_ns,
        )

    def register(
        self, client: Client, own: NamedType, now_ns: int, *, is_publishing: bool = False
    ) -> None:
        """Register a client's definition, as far as the client has the right to it."""
        registry, name = self._types.registry, own.name
        before, work = registry.get(name), registry.work
        if _concerns(client, name):
            registry.register(
                own,
                client=client.client_id,
                client_name=client.name,
                may_publish=lambda used: self._may_define(client, used),
                is_publishing=is_publishing or name in client.queue.source.published,
                address="" if client.address_usage is None else client.address_usage.address,
                address_count_max=self._node.admission.limits.type_count_per_address_max,
                type_count_max=(
                    TYPE_COUNT_MAX if client.holder.is_trusted else open_part(TYPE_COUNT_MAX)
                ),
            )
            # An update that the client publishes is refused with the same reason.
            self._note_conflict(client, name, now_ns, is_notified=not is_publishing)
            for number, definition in registry.take_displaced():
                displaced = self._node.table.by_id.get(number)
                if displaced is not None:
                    self._note_conflict(displaced, definition.type.name, now_ns, is_notified=True)
        after = registry.get(name)
        if before is not None and after is not before:
            self._node.events.report(_change(before, after, client))
        client.queue.work_left -= registry.work - work
        topic = self._dispatcher.topics.get(name)
        if topic is not None:
            self._routing.definition_changed(client, topic)

    def _note_conflict(self, client: Client, name: str, now_ns: int, *, is_notified: bool) -> None:
        """Report a conflict, and note whether updates of the type by the client must be checked.

        With `is_notified`, the client is notified of the conflict.
        """
        registry, queue = self._types.registry, client.queue
        held = registry.held(client.client_id, name)
        doubtful = queue.source.doubtful_types or set()
        doubtful.discard(name)
        if held is not None and not held.is_accepted:
            doubtful.add(name)
        queue.source.doubtful_types = doubtful or None
        queue.relay.forget()
        conflict = registry.conflict(client.client_id, name)
        if conflict is not None:
            self._node.events.report(DefinitionRefused(type_name=name, detail=str(conflict)))
            self._node.publisher.publish_conflict(conflict, now_ns)
            if is_notified and queue.has_subjects:
                self._node.refuse(client, "describe", str(conflict), now_ns)

    def _may_define(self, client: Client, type_name: str) -> bool:
        """Whether a definition of the client becomes part of the served one."""
        rights = client.rights
        assert rights is not None
        return rights.allows_type("publish", type_name) is not False

    def _announce(self, type_name: str, now_ns: int) -> None:
        """Describe a type as it is served to the clients that subscribed to descriptions."""
        served, now_s = self._types.registry[type_name], self._node.clock.wall_s(now_ns)
        for member in self._routing.members(_GROUPS[isinstance(served, StructType)]):
            member.client.connection.describe(served, now_s)

    def _pass_on(
        self,
        client: Client,
        topic: Topic,
        own: NamedType,
        header: Header,
        payload: bytes,
        now_ns: int,
    ) -> None:
        """Forward a description to the clients that subscribed to them, after the served one."""
        self._announce(own.name, now_ns)
        served, now_s = self._types.registry[own.name], self._node.clock.wall_s(now_ns)
        if client.queue.has_subjects and fingerprint(served) != fingerprint(own):
            client.connection.describe(served, now_s)
        self._node.take(client, topic, header, payload, now_ns)


def _reserved(name: str) -> str | None:
    """Why a type name is reserved; None if clients may describe a type of this name.

    Names that begin with `Dots` are not reserved: DOTS programs describe such types.
    """
    if name.startswith("Skerry") and name not in internal_types():
        return f"{name:.60}: names that begin with Skerry are reserved for internal types"
    return None


class _Descriptions:
    """A task in steps that describes types to a client that requested them."""

    def __init__(
        self,
        client: Client,
        registry: Definitions,
        names: Iterator[str],
        finish: Callable[[float], None],
    ) -> None:
        self._client = client
        self._registry = registry
        self._names = names
        self._finish = finish

    def step(self, now_s: float) -> bool:
        """Describe types until the turn is over. Returns whether all are described."""
        client, queue = self._client, self._client.queue
        size_max = int(queue.size) + REPLAY_SLICE_BYTES
        while queue.work_left > 0 and queue.size < size_max:
            name = next(self._names, None)
            if name is None:
                self._finish(now_s)
                return True
            queue.work_left -= 1
            if not self._registry.is_defined(name) or not _concerns(client, name):
                continue
            type_ = self._registry[name]
            if isinstance(type_, EnumType) or type_.flags.internal:
                continue
            if not client.connection.is_described(type_):
                queue.work_left -= DESCRIBE_WORK
                client.connection.describe(type_, now_s)
        return False


class DefinitionList:
    """A task in steps that sends a client all definitions of the types that it may use."""

    def __init__(self, client: Client, registry: Definitions) -> None:
        self._client = client
        self._registry = registry
        self._found = self._definitions()

    def step(self, now_s: float) -> bool:
        """Send the next definitions. Returns whether all are sent."""
        connection = self._client.connection
        for _ in range(_LISTED_COUNT):
            try:
                definition = next(self._found)
            except StopIteration:
                connection.send_message(internal_class("SkerryDefinition")(), now_s)
                return True
            if definition is not None:
                connection.send_message(self._message(definition), now_s)
        return False

    def _definitions(self) -> Iterator[Definition | None]:
        """All definitions that the client may see; None after each type."""
        for name in [name for name in self._registry if name not in internal_types()]:
            if _concerns(self._client, name):
                yield from self._registry.definitions(name)
            yield None

    def _message(self, definition: Definition) -> Struct:
        clients = list(definition.clients.items())[:DEFINITION_USER_COUNT_MAX]
        message: Struct = internal_class("SkerryDefinition")(
            typeName=definition.type.name,
            fingerprint=fingerprint(definition.type),
            isServed=definition.is_accepted,
            text=write_type(definition.type),
            clients=[number for number, _ in clients],
            clientNames=[name for _, name in clients],
            clientCount=len(definition.clients),
        )
        if definition.conflict is not None:
            message.conflict = definition.conflict.difference  # type: ignore[attr-defined]
        return message


def _excess(client: Client, name: str, size: int) -> str | None:
    """Why a client may not describe one more type; None if it may."""
    count, limits = len(client.described), client.limits
    if name not in client.described and count >= limits.type_count_max:
        return f"{name:.60}: {count} types described already"
    total = client.described_bytes - client.described.get(name, 0) + size
    # A type that the client may not use may still be a part of one that it describes later.
    limit = limits.type_bytes_max if _concerns(client, name) else UNUSABLE_TYPE_BYTES_MAX
    if total > limit:
        return f"{name:.60}: {total} bytes of descriptions, the limit is {limit}"
    return None


def _concerns(client: Client, type_name: str) -> bool:
    """Whether a client may do anything with objects of a type."""
    rights = client.rights
    assert rights is not None
    return any(rights.allows_type(verb, type_name) is not False for verb in _USES)


def _change(before: NamedType, after: NamedType | None, client: Client) -> TypeChanged:
    added = []
    if isinstance(before, StructType) and isinstance(after, StructType):
        known = {item.tag for item in before.fields}
        added = [f"{f.tag}: {f.type.name} {f.name}" for f in after.fields if f.tag not in known]
    return TypeChanged(
        type_name=before.name,
        client_id=client.client_id,
        name=client.name,
        added=tuple(added),
    )
