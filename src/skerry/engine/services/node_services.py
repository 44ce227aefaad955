"""Messages of clients to the node itself: clear, echo, administration.

Permissions are checked here, before anything is changed. Messages about groups are handled by
`engine.services.joining`, about types by `engine.types.type_descriptions`, requests by
`engine.services.requests`, and claims by `engine.services.ownership`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from skerry.codec.pieces import cut, split
from skerry.engine.admission.admission import Admission
from skerry.engine.admission.permissions import change_refusal
from skerry.engine.clients import Client, Countdown
from skerry.engine.connections.service_host import ServiceHost
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.routing import Routing
from skerry.engine.dispatch.topics import Topic
from skerry.engine.events import NodesForgotten
from skerry.engine.services.joining import Joining
from skerry.engine.services.requests import RequestTable
from skerry.engine.types.type_descriptions import TypeDescriptions
from skerry.engine.types.type_table import SPECIAL_TYPES, TypeTable
from skerry.protocol.access.connection import ALIVE_MARK
from skerry.protocol.access.header import Header

SERVICE_BYTES_MAX: Final = 512 * 1024
"""A request of a client to the node, such as a list of types to be described or cleared. It is
decoded in one step, for which all other clients wait: some tens of milliseconds. A list of all
types that a node can have is smaller."""
RUNNING_CHANGE_COUNT_MAX: Final = 1000
"""Changes of `running` in the DotsClient of one client. Clients without any permission may publish
it, and each change is sent to all that joined DotsClient."""

_SECRET_BIT: Final = 1 << 4
"""The field of DotsAuthentication that is not sent to subscribers."""

_NODE_ONLY: Final = "only the node publishes and removes its objects"

_LARGE_MESSAGES: Final = frozenset(
    {"DotsEcho", "EnumDescriptorData", "SkerryRequest", "SkerryResponse", "StructDescriptorData"}
)
"""Messages with content of the client; their services have limits of their own."""

_USUAL_WORK: Final = (20, 128)
_MESSAGE_WORK: Final = {
    "DotsEcho": (0, 4096),
    "EnumDescriptorData": (100, 32),
    "SkerryClaim": (50, 1024),
    "SkerryRequest": (20, 1024),
    "SkerryResponse": (20, 1024),
    "StructDescriptorData": (200, 32),
}
"""The work units of a message: a fixed number, and one more for each so many bytes. A type
description is decoded, compared with others, and a class is made of it."""

_Service = Callable[[Client, Topic, Header, bytes, int], None]


class NodeServices:
    def __init__(
        self,
        node: ServiceHost,
        dispatcher: Dispatcher,
        routing: Routing,
        types: TypeTable,
        admission: Admission,
        *,
        has_peers: bool = False,
    ) -> None:
        self._node = node
        self._has_peers = has_peers
        self._types = types
        self._admission = admission
        self._echoes: deque[tuple[int, Client, Callable[[float], None]]] = deque()
        """Echoes that wait until all updates published before them are stored."""
        self._joining = Joining(node, dispatcher, routing, types)
        self.type_descriptions = TypeDescriptions(node, dispatcher, routing, types)
        self.requests = RequestTable(node, types)
        self.ownership = self.requests.ownership
        self._services: dict[str, _Service] = {
            "DotsAuthentication": self._set_rule,
            "DotsAuthenticationPolicy": self._set_rule,
            "DotsClearCache": self._clear,
            "DotsClient": self._client,
            "DotsDescriptorRequest": self.type_descriptions.answer,
            "DotsEcho": self._echo,
            "DotsMember": self._joining.take,
            "EnumDescriptorData": self.type_descriptions.take,
            "SkerryClaim": self._with_extensions(self.ownership.take),
            "SkerryForget": self._with_extensions(self._forget),
            "SkerryRequest": self._with_extensions(self.requests.take_request),
            "SkerryResponse": self._with_extensions(self.requests.take_response),
            "StructDescriptorData": self.type_descriptions.take,
        }
        assert set(self._services) < SPECIAL_TYPES

    def serve(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> bool:
        """Process a message to the node. Returns False if the update is not such a message."""
        if topic.name not in SPECIAL_TYPES:
            return False
        # The node's own objects stay at their default subjects.
        header.subject = ""
        service = self._services.get(topic.name, self._refuse_publish)
        if len(payload) > SERVICE_BYTES_MAX and topic.name not in _LARGE_MESSAGES:
            reason = f"{topic.name}: {len(payload)} bytes, the limit is {SERVICE_BYTES_MAX}"
            self._node.refuse(client, "ask", f"{reason}; use several messages", now_ns)
            return True
        work, bytes_per_unit = _MESSAGE_WORK.get(topic.name, _USUAL_WORK)
        client.queue.work_left -= work + len(payload) // bytes_per_unit
        service(client, topic, header, payload, now_ns)
        if client.asks_too_much and client.is_present:
            why = f"{client.owed_count} messages and {len(client.agenda)} tasks wait"
            self._node.drop(client, now_ns, f"{topic.name}: {why}", reason="slow")
        return True

    def is_permitted(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> bool:
        """Whether a client may publish or remove an object; if not, the client is notified."""
        # The cost of a topic that was made for this update counts for the client.
        client.queue.work_left -= self._types.take_work()
        if client.meter is not None:
            why = client.meter.spend(1, len(payload), now_ns)
            if why is not None:
                self._node.drop(client, now_ns, f"{topic.name}: {why}", reason="too much")
                return False
        rights = client.rights
        assert rights is not None
        if rights.allows_objects or topic.name in SPECIAL_TYPES:
            return True
        is_remove = header.remove_obj == 1
        chosen = header.subject if client.queue.has_subjects else ""
        why = change_refusal(rights, topic, payload, chosen=chosen, is_remove=is_remove)
        if why is None:
            return True
        self._node.refuse(client, "remove" if is_remove else "publish", why, now_ns)
        return False

    def deadline_ns(self) -> int | None:
        """When to call `advance`; the driver of the storage also calls it after each batch."""
        return self.requests.deadline_ns()

    def advance(self, now_ns: int) -> None:
        """Respond to requests that timed out, and to echoes that waited for the storage."""
        self.requests.advance(now_ns)
        journal = self._node.journal
        while self._echoes and journal is not None and self._echoes[0][0] <= journal.stored:
            _, client, reply = self._echoes.popleft()
            if client.is_present:
                reply(self._node.clock.wall_s(now_ns))

    def leaving(self, client: Client) -> Iterator[int]:
        """Clean up after a client that disconnected; yields the work units of each step."""
        yield from self.type_descriptions.leaving(client)
        yield from self.ownership.leaving(client)
        self.requests.forget(client, self._node.clock.now_ns)

    def _echo(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        message: Any = self._types.class_of(topic).decode(payload)
        if not message.request:
            return
        message.request = False
        journal, number = self._node.journal, int(client.queue.source.stored_number)

        def reply(now_s: float) -> None:
            client.answered(len(payload))
            client.connection.send_message(message, now_s)

        def answer(now_s: float) -> None:
            is_flush = message.data != ALIVE_MARK
            if is_flush and journal is not None and number > journal.stored:
                self._echoes.append((number, client, reply))
            else:
                reply(now_s)

        client.asked(len(payload))
        client.when_caught_up(answer, self._node.clock.wall_s(now_ns))

    def _clear(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        message: Any = self._types.class_of(topic).decode(payload)
        rights = client.rights
        assert rights is not None
        if message.typeNames is None:
            self._node.drop(client, now_ns, "DotsClearCache: without typeNames")
            return
        for name in message.typeNames:
            if name in SPECIAL_TYPES:
                self._node.refuse(client, "clear", f"{name}: {_NODE_ONLY}", now_ns)
                return
            if not rights.allows_group("clear", name):
                self._node.refuse(client, "clear", f"{name}: not permitted", now_ns)
                return
            known = self._types.topic(name)
            if known is not None and not self.ownership.is_free_for(known, client):
                reason = f"{name}: another client owns some of its objects"
                self._node.refuse(client, "clear", reason, now_ns)
                return
        if not message.typeNames:
            # It needs no permission, so it must not be forwarded to subscribers of DotsClearCache.
            return
        # The message is forwarded to subscribers after the last object is removed. Its permission
        # is checked now.
        cleared_all = Countdown(
            1, lambda: self._node.take(client, topic, header, payload, self._node.clock.now_ns)
        )
        wall_ns = self._node.clock.wall_ns(now_ns)
        for name in dict.fromkeys(message.typeNames):
            cleared = self._types.topic(name)
            if cleared is not None:
                cleared_all.count += 1
                self._node.bulk_removals.clear(
                    cleared, _hidden(client, cleared), wall_ns, cleared_all.one_less
                )
        cleared_all.one_less()
        if cleared_all.count:
            # An echo that follows has to wait for the removal.
            self._node.start(client, cleared_all, now_ns)

    def _set_rule(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Set or remove an authentication rule or policy; it is forwarded without its secret."""
        rights = client.rights
        assert rights is not None
        if not rights.allows_group("administer", topic.name):
            self._node.refuse(client, "administer", f"{topic.name}: not permitted", now_ns)
            return
        message: Any = self._types.class_of(topic).decode(payload)
        is_policy = topic.name == "DotsAuthenticationPolicy"
        authentication = self._admission.authentication
        if header.remove_obj == 1:
            change = authentication.remove_policy if is_policy else authentication.remove_rule
        else:
            change = authentication.set_policy if is_policy else authentication.set_rule
        change(message)
        if not is_policy:
            payload = cut(topic.plan, split(topic.plan, payload, 0), ~_SECRET_BIT)
            header.attributes &= ~_SECRET_BIT
        self._node.take(client, topic, header, payload, now_ns)

    def _forget(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Let the program of the node forget dead nodes of the system."""
        rights = client.rights
        assert rights is not None
        if not rights.allows_group("administer", topic.name):
            self._node.refuse(client, "administer", f"{topic.name}: not permitted", now_ns)
            return
        if not self._has_peers:
            reason = f"{topic.name}: the node has no system, so it knows no other nodes"
            self._node.refuse(client, "administer", reason, now_ns)
            return
        message: Any = self._types.class_of(topic).decode(payload)
        nodes = tuple(message.nodes or ())
        self._node.events.report(NodesForgotten(nodes=nodes, client_name=client.name))

    def _client(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Publish `running` of a client's own DotsClient; the node sets all other fields itself."""
        message: Any = self._types.class_of(topic).decode(payload)
        if message.id != client.client_id or header.remove_obj == 1:
            reason = "DotsClient: a client may only publish its own"
            self._node.refuse(client, "publish", reason, now_ns)
            return
        if message.running is None or message.running == client.running:
            return
        client.running_change_count += 1
        if client.running_change_count > RUNNING_CHANGE_COUNT_MAX:
            why = f"`running` changed more than {RUNNING_CHANGE_COUNT_MAX} times"
            self._node.refuse(client, "publish", f"DotsClient: {why}", now_ns)
            return
        client.running = message.running
        own = type(message)(id=message.id, running=message.running)
        header.attributes = int(own.attributes)
        self._node.take(client, topic, header, own.encode(), now_ns)

    def _refuse_publish(
        self, client: Client, topic: Topic, header: Header, _payload: bytes, now_ns: int
    ) -> None:
        verb = "remove" if header.remove_obj == 1 else "publish"
        self._node.refuse(client, verb, f"{topic.name}: {_NODE_ONLY}", now_ns)

    def _with_extensions(self, service: _Service) -> _Service:
        """A service that only clients with extensions may use; others are disconnected."""

        def serve(
            client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
        ) -> None:
            if client.queue.has_subjects:
                service(client, topic, header, payload, now_ns)
            else:
                self._node.drop(client, now_ns, f"{topic.name}: without `extensions`")

        return serve


def _hidden(client: Client, topic: Topic) -> frozenset[bytes]:
    """The keys of objects of a type that the client may not clear: their subjects forbid it."""
    rights, type_cache = client.rights, topic.type_cache
    assert rights is not None
    if rights.allows_all:
        return frozenset()
    return frozenset(
        key
        for key in type_cache.own_keys
        if not rights.allows("clear", type_cache.objects[key].subject)
    )
