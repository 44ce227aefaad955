"""The node: takes what its clients publish, keeps what is current, and tells those who asked.

A pure machine carried by streams. Each client has a connection (`protocol.access.server`), which
keeps the rules of the handshake; here is what the messages mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from skerry.codec.compile import Codec
from skerry.codec.envelope import ACCESS, REMOVE, UPDATE, Update
from skerry.codec.subjects import default_subject
from skerry.engine.cache import Cache, Entry
from skerry.errors import CodecError, LimitExceeded, SchemaError
from skerry.ids import NODE_CLIENT
from skerry.limits import GROUP_COUNT_MAX
from skerry.objects.base import Struct, codec_of
from skerry.objects.classes import class_of
from skerry.objects.descriptors import from_description
from skerry.objects.internal import internal_class
from skerry.objects.times import ns_of_seconds, seconds_of_ns
from skerry.protocol.access.connection import Arrival, Broken, Ended, Stage
from skerry.protocol.access.header import ABSENT, NEVER, Header
from skerry.protocol.access.server import ConnectAsked, JoinsFinished, ServerConnection
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address, CloseReason, Disconnect, Statistics, Transmit
from skerry.protocol.outbox import Outbox
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types
from skerry.schema.model import EnumType, NamedType, StructType
from skerry.schema.registry import Registry

__all__ = ["NodeCore"]

_FIRST_CLIENT: Final = 2
_REAP_GAP_NS: Final = 10_000_000_000
"""How often clients that are gone, and of which nothing is left, are forgotten."""
_TIME_S_MAX: Final = 9_000_000_000.0
"""The nanoseconds of times much further from 1970 do not fit into 64 bits."""


class NodeCore(Outbox):
    """One node. `wall_offset_ns` is what to add to monotonic time to get wall time."""

    def __init__(self, *, name: str = "skerry", wall_offset_ns: int = 0) -> None:
        super().__init__()
        self.name = name
        self.cache = Cache()
        self.registry = Registry()
        for type_ in internal_types().values():
            self.registry.add(type_, origin="skerry")
        self._wall_offset_ns = wall_offset_ns
        self._clients: dict[Address, ServerConnection] = {}
        self._groups: dict[str, dict[int, ServerConnection]] = {}
        self._next_client = _FIRST_CLIENT
        self._position = 0
        self._reap_due_ns: int | None = None
        self._services: dict[str, Callable[[ServerConnection, Any, int], str | None]] = {
            "DotsMember": self._member,
            "DotsDescriptorRequest": self._descriptor_request,
            "DotsEcho": self._echo,
        }

    # -- the machine's contract

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        """A client connects, by the current framing."""
        self.open(peer, Wire(), now_ns)

    def open(self, peer: Address, wire: Wire, now_ns: int) -> None:
        """A client connects through a door with its own framing."""
        client = ServerConnection(wire, client_id=self._next_client)
        self._next_client += 1
        self._clients[peer] = client
        self._tell_state(client, now_ns)
        client.greet(self.name, self._wall_s(now_ns))

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Bytes from a client."""
        client = self._clients.get(source)
        if client is None:
            return
        for item in client.receive(data, self._wall_s(now_ns)):
            if isinstance(item, Arrival):
                fault = self._arrived(client, item, now_ns)
                if fault is not None:
                    self._drop(source, now_ns, fault)
                    return
            elif isinstance(item, ConnectAsked):
                client.accept(item, self._wall_s(now_ns))
                self._tell_state(client, now_ns)
            elif isinstance(item, JoinsFinished):
                # The state is told before the client is, as its own DotsClient is among what it
                # may have joined early.
                client.stage = Stage.CONNECTED
                self._tell_state(client, now_ns)
                client.finish_preload(self._wall_s(now_ns))
            elif isinstance(item, Ended):
                if item.code == 0:
                    # It said goodbye, and hears nothing more.
                    client.stage = Stage.CLOSED
                    self._drop(source, now_ns, "")
                else:
                    self._drop(source, now_ns, f"received DOTS error: ({item.code}) {item.text}")
                return
            else:
                assert isinstance(item, Broken)
                self._drop(source, now_ns, f"{item.message}: {item.detail}")
                return

    def stream_closed(self, peer: Address, _reason: CloseReason, now_ns: int) -> None:
        """A client is gone, orderly or not."""
        client = self._clients.pop(peer, None)
        if client is not None:
            self._forget(client, now_ns)

    def advance(self, now_ns: int) -> None:
        """Forget clients of which nothing is left."""
        if self._reap_due_ns is None or now_ns < self._reap_due_ns:
            return
        self._reap_due_ns = None
        if self._reap(now_ns):
            self._reap_due_ns = now_ns + _REAP_GAP_NS

    def deadline_ns(self) -> int | None:
        """When to look for clients that can be forgotten."""
        return self._reap_due_ns

    def statistics(self) -> Statistics:
        """Nothing is counted yet."""
        return Statistics()

    def take_transmits(self) -> list[Transmit]:
        """What is to be sent, a piece for each client that has something to hear."""
        for peer, client in self._clients.items():
            if client.out_bytes:
                self._transmits.append(Transmit(destination=peer, data=client.take_output()))
        return super().take_transmits()

    # -- what clients send

    def _arrived(self, client: ServerConnection, item: Arrival, now_ns: int) -> str | None:
        """Act on an object; says why its sender must go, if it must."""
        header, payload = item.header, item.payload
        type_ = self.registry.get(header.type_name)
        if not isinstance(type_, StructType):
            return f"there is no type {header.type_name}"
        if type_.flags.substruct_only:
            return f"{type_.name} is only for use inside other structs"
        codec = codec_of(class_of(type_))
        try:
            pieces = codec.split(payload)
            if pieces.stop != len(payload):
                return f"{type_.name}: bytes follow the object"
            if not pieces.is_canonical:
                payload = codec.normalize(payload)
            if service := self._services.get(type_.name):
                return service(client, class_of(type_).decode(payload), now_ns)
            missing = type_.key_mask & ~pieces.present
            if missing:
                return f"{type_.name}: the key is not complete"
            # Asked this way round, since a time may also be not a number.
            if header.sent_time != NEVER and not abs(header.sent_time) <= _TIME_S_MAX:
                return f"{type_.name}: sentTime is no time: {header.sent_time}"
            if header.remove_obj == 1 and not type_.flags.cached:
                return f"{type_.name} is not cached: nothing to remove"
            self._take(client, type_, codec, header, payload, now_ns)
        except (CodecError, SchemaError, LimitExceeded) as error:
            return str(error)
        return None

    def _take(
        self,
        client: ServerConnection,
        type_: StructType,
        codec: Codec,
        header: Header,
        payload: bytes,
        now_ns: int,
    ) -> None:
        """An object for everybody: into the cache, and on to the group of its type."""
        if type_.name == "DotsClearCache":
            self._clear(class_of(type_).decode(payload).typeNames or (), now_ns)
        described = self._learn(client, type_, payload)
        header.server_sent_time = self._wall_s(now_ns)
        if header.sent_time == NEVER:
            header.sent_time = header.server_sent_time
        header.sender = client.client_id
        # What only a node may say is not believed of a client.
        header.from_cache = ABSENT
        header.is_from_myself = 0
        header.subscription_id = ABSENT
        header.subject = ""
        header.sequence = ABSENT
        header.position = ABSENT
        header.node = 0
        self._publish(type_, codec, header, payload, now_ns, described=described)

    def _publish(
        self,
        type_: StructType,
        codec: Codec,
        header: Header,
        payload: bytes,
        now_ns: int,
        *,
        described: NamedType | None = None,
    ) -> None:
        if type_.flags.cached:
            self.cache.apply(self._update(type_, codec, header, payload, now_ns), codec)
        now_s = self._wall_s(now_ns)
        for member in list(self._groups.get(type_.name, {}).values()):
            if described is not None:
                member.describe(described, now_s)
            member.send(header, payload, type_, now_s)

    def _update(
        self, type_: StructType, codec: Codec, header: Header, payload: bytes, now_ns: int
    ) -> Update:
        pieces = codec.split(payload)
        self._position += 1
        return Update(
            type_name=type_.name,
            subject=header.subject or default_subject(codec.plan, pieces),
            fingerprint=fingerprint(type_),
            operation=REMOVE if header.remove_obj == 1 else UPDATE,
            present=int(header.attributes),
            key=codec.key_of(pieces),
            payload=payload,
            sender=int(header.sender),
            position=self._position,
            sent_ns=ns_of_seconds(header.sent_time),
            time_ns=now_ns + self._wall_offset_ns,
            source=ACCESS,
        )

    def _learn(
        self, client: ServerConnection, type_: StructType, payload: bytes
    ) -> NamedType | None:
        """The type that a description brings, which is known from now on."""
        if type_.name not in ("StructDescriptorData", "EnumDescriptorData"):
            return None
        found = from_description(class_of(type_).decode(payload), self.registry)
        client.note_described(found.name)
        if found.name not in self.registry:
            self.registry.add(found, origin=f"client {client.client_id} ({client.name})")
            return found
        try:
            self.registry.add(found, origin=f"client {client.client_id} ({client.name})")
        except SchemaError:
            # The first definition stays; the registry keeps the other to be shown.
            return self.registry[found.name]
        return found

    # -- services

    def _member(self, client: ServerConnection, message: Any, now_ns: int) -> str | None:
        if message.groupName is None or message.event is None:
            return "DotsMember: without groupName or event"
        if message.event.label == "join":
            if message.groupName not in self._groups and len(self._groups) >= GROUP_COUNT_MAX:
                return f"there are {GROUP_COUNT_MAX} groups already"
            self._groups.setdefault(message.groupName, {})[client.client_id] = client
            self._replay(client, message.groupName, now_ns)
        elif message.event.label == "leave":
            self._leave(client, message.groupName)
        return None

    def _leave(self, client: ServerConnection, group: str) -> None:
        members = self._groups.get(group, {})
        members.pop(client.client_id, None)
        if not members:
            self._groups.pop(group, None)

    def _replay(self, client: ServerConnection, group: str, now_ns: int) -> None:
        type_ = self.registry.get(group)
        if not isinstance(type_, StructType) or not type_.flags.cached:
            return
        now_s = self._wall_s(now_ns)
        left = self.cache.count(group)
        codec = codec_of(class_of(type_))
        for _, entry in self.cache.objects(group):
            left -= 1
            header = self._replay_header(type_, entry, left, now_s)
            header.attributes = codec.split(entry.payload).present
            client.send(header, entry.payload, type_, now_s)
        info = internal_class("DotsCacheInfo")(typeName=group, endTransmission=True)
        client.send_message(info, now_s)

    def _replay_header(self, type_: StructType, entry: Entry, left: int, now_s: float) -> Header:
        header = Header(type_.name)
        header.sent_time = seconds_of_ns(entry.sent_ns)
        header.server_sent_time = now_s
        header.sender = entry.modified_from
        header.from_cache = left
        header.remove_obj = 0
        return header

    def _descriptor_request(
        self, client: ServerConnection, message: Any, now_ns: int
    ) -> str | None:
        now_s = self._wall_s(now_ns)
        wanted, unwanted = message.whitelist or (), message.blacklist or ()
        for name in sorted(self.registry):
            type_ = self.registry[name]
            if isinstance(type_, EnumType) or type_.flags.internal:
                continue
            if (not wanted or name in wanted) and name not in unwanted:
                client.describe(type_, now_s)
        client.send_message(internal_class("DotsCacheInfo")(endDescriptorRequest=True), now_s)
        return None

    def _echo(self, client: ServerConnection, message: Any, now_ns: int) -> str | None:
        if message.request:
            message.request = False
            client.send_message(message, self._wall_s(now_ns))
        return None

    def _clear(self, names: Iterable[str], now_ns: int) -> None:
        for name in names:
            type_ = self.registry.get(name)
            if isinstance(type_, StructType):
                self._remove(type_, [entry for _, entry in self.cache.objects(name)], now_ns)

    def _remove(self, type_: StructType, entries: Iterable[Entry], now_ns: int) -> None:
        """Removals by the node itself."""
        cls = class_of(type_)
        for entry in entries:
            obj = cls.decode(entry.payload)
            self._say(obj, now_ns, is_remove=True)

    def _say(self, obj: Struct, now_ns: int, *, is_remove: bool = False) -> None:
        """Publish something as the node itself."""
        type_ = obj.descriptor
        codec = codec_of(type(obj))
        header = Header(type_.name)
        header.sent_time = header.server_sent_time = self._wall_s(now_ns)
        header.sender = NODE_CLIENT
        header.is_from_myself = 1
        header.remove_obj = int(is_remove)
        header.attributes = type_.key_mask if is_remove else int(obj.attributes)
        payload = codec.encode_only(obj, int(header.attributes))
        self._publish(type_, codec, header, payload, now_ns)

    # -- clients

    def _tell_state(self, client: ServerConnection, now_ns: int) -> None:
        states = internal_class("DotsConnectionState")
        self._say(
            internal_class("DotsClient")(
                id=client.client_id,
                name=client.name,
                connectionState=states.of_tag(client.stage.value),
            ),
            now_ns,
        )

    def _drop(self, peer: Address, now_ns: int, why: str) -> None:
        """End a connection from here, saying why where the client listens for that."""
        client = self._clients.pop(peer)
        client.end(self._wall_s(now_ns), code=1 if why else 0, text=why)
        if client.out_bytes:
            self._transmits.append(Transmit(destination=peer, data=client.take_output()))
        self._transmits.append(Disconnect(destination=peer))
        self._forget(client, now_ns)

    def _forget(self, client: ServerConnection, now_ns: int) -> None:
        client.stage = Stage.CLOSED
        self._tell_state(client, now_ns)
        for group in list(self._groups):
            self._leave(client, group)
        for name in self.cache.type_names():
            type_ = self.registry[name]
            assert isinstance(type_, StructType)
            if type_.flags.cleanup:
                mine = [
                    entry
                    for _, entry in self.cache.objects(name)
                    if entry.modified_from == client.client_id
                ]
                self._remove(type_, mine, now_ns)
        if self._reap_due_ns is None:
            self._reap_due_ns = now_ns + _REAP_GAP_NS

    def _reap(self, now_ns: int) -> bool:
        """Remove closed clients that no object mentions; whether some are left for later."""
        used: set[int] = set()
        for name in self.cache.type_names():
            for _, entry in self.cache.objects(name):
                used |= {entry.created_from, entry.modified_from}
        cls = internal_class("DotsClient")
        is_waiting = False
        for _, entry in list(self.cache.objects("DotsClient")):
            obj = cls.decode(entry.payload)
            if obj.connectionState is None or obj.connectionState.label != "closed":
                continue
            if obj.id in used:
                is_waiting = True
            else:
                self._say(obj, now_ns, is_remove=True)
        return is_waiting

    def _wall_s(self, now_ns: int) -> float:
        return seconds_of_ns(now_ns + self._wall_offset_ns)
