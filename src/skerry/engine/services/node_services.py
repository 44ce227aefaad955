"""Messages of clients to the node itself: clear, echo, administration.

Permissions are checked here, before anything is changed. Messages about groups are handled by
`engine.services.joining`, about types by `engine.types.type_descriptions`, requests by
`engine.services.requests`, and claims by `engine.services.ownership`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from skerry.codec.pieces import canonical_key, cut, split
from skerry.codec.subjects import short_subject
from skerry.engine.admission.admission import Admission
from skerry.engine.clients import Client, Countdown
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.ledger import RequestCounts
from skerry.engine.dispatch.routing import Routing
from skerry.engine.dispatch.topics import Topic
from skerry.engine.services.joining import Joining
from skerry.engine.services.requests import RequestTable
from skerry.engine.types.node_types import SPECIAL_TYPES, NodeTypes
from skerry.engine.types.type_descriptions import TypeDescriptions
from skerry.protocol.access.connection import ALIVE_MARK
from skerry.protocol.access.header import Header
from skerry.schema.model import NamedType

if TYPE_CHECKING:
    from skerry.engine.node import NodeCore

__all__ = ["RUNNING_CHANGE_COUNT_MAX", "SERVICE_BYTES_MAX", "NodeServices"]

SERVICE_BYTES_MAX: Final = 512 * 1024
"""A request of a client to the node, such as a list of types to be described or cleared. It is
decoded in one step, for which all other clients wait: some tens of milliseconds. A list of all
types that a node can have is smaller."""
RUNNING_CHANGE_COUNT_MAX: Final = 1000
"""Changes of `running` in the DotsClient of one client. Clients without any permission may publish
it, and each change is sent to all that joined DotsClient."""

_SECRET_BIT: Final = 1 << 4
"""The field of DotsAuthentication that nobody gets to see."""

_OURS: Final = "only the node publishes and removes its objects"

_LARGE_MESSAGES: Final = frozenset(
    {"DotsEcho", "EnumDescriptorData", "SkerryRequest", "SkerryResponse", "StructDescriptorData"}
)
"""Messages that carry something of the client's: their services have bounds of their own."""

_USUAL_LOOKS: Final = (20, 128)
_LOOKS: Final = {
    "DotsEcho": (0, 4096),
    "EnumDescriptorData": (100, 32),
    "SkerryClaim": (50, 1024),
    "SkerryRequest": (20, 1024),
    "SkerryResponse": (20, 1024),
    "StructDescriptorData": (200, 32),
}
"""Looks that a message takes: a fixed number, and one more for each so many bytes. A description is
read, compared with others, and a class is made of it."""

_Service = Callable[[Client, Topic, Header, bytes, int], None]


class NodeServices:
    """Everything a client can say to the node."""

    def __init__(
        self,
        node: NodeCore,
        hub: Dispatcher,
        routing: Routing,
        types: NodeTypes,
        admission: Admission,
    ) -> None:
        self._node = node
        self._types = types
        self._admission = admission
        self._echoes: deque[tuple[int, Client, Callable[[float], None]]] = deque()
        """Answers that wait until what was published before them is stored."""
        self._joining = Joining(node, hub, routing, types)
        self._describing = TypeDescriptions(node, hub, routing, types)
        self._requests = RequestTable(node, types)
        self._ownership = self._requests.ownership
        self._services: dict[str, _Service] = {
            "DotsAuthentication": self._set_rule,
            "DotsAuthenticationPolicy": self._set_rule,
            "DotsClearCache": self._clear,
            "DotsClient": self._client,
            "DotsDescriptorRequest": self._describing.answer,
            "DotsEcho": self._echo,
            "DotsMember": self._joining.take,
            "EnumDescriptorData": self._describing.take,
            "SkerryClaim": self._only_theirs(self._ownership.take),
            "SkerryRequest": self._only_theirs(self._requests.ask),
            "SkerryResponse": self._only_theirs(self._requests.answer),
            "StructDescriptorData": self._describing.take,
        }
        assert set(self._services) < SPECIAL_TYPES

    def serve(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> bool:
        """Act on what is meant for the node; whether it was."""
        if topic.name not in SPECIAL_TYPES:
            return False
        # The node's own objects stay at their default subjects.
        header.subject = ""
        service = self._services.get(topic.name, self._only_ours)
        if len(payload) > SERVICE_BYTES_MAX and topic.name not in _LARGE_MESSAGES:
            reason = f"{topic.name}: {len(payload)} bytes, the limit is {SERVICE_BYTES_MAX}"
            self._node.refuse(client, "ask", f"{reason}; ask in several messages", now_ns)
            return True
        looks, bytes_per_look = _LOOKS.get(topic.name, _USUAL_LOOKS)
        client.lane.looks -= looks + len(payload) // bytes_per_look
        service(client, topic, header, payload, now_ns)
        if client.asks_too_much and client.is_present:
            why = f"{client.owed_count} questions and {len(client.agenda)} tasks wait"
            self._node.drop(client, now_ns, f"{topic.name}: {why}", reason="slow")
        return True

    def is_permitted(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> bool:
        """Whether a client may publish or remove this now; if not, it was told."""
        # The update of a type that has another definition pays for the class that is made of it.
        client.lane.looks -= self._types.take_work()
        if client.meter is not None:
            why = client.meter.spend(1, len(payload), now_ns)
            if why is not None:
                self._node.drop(client, now_ns, f"{topic.name}: {why}", reason="too much")
                return False
        rights = client.rights
        assert rights is not None
        if rights.allows_objects:
            return True
        if topic.name in SPECIAL_TYPES:
            return True
        verb = "remove" if header.remove_obj == 1 else "publish"
        chosen = header.subject if client.lane.has_subjects else ""
        allowed = rights.allows_type(verb, topic.name)
        if allowed is None:
            own = short_subject(topic.plan, split(topic.plan, payload, 0))
            allowed = rights.allows(verb, own)
        # Under whatever subject it is published, it is the object of that type and key; and the
        # bytes of a bare subject are nothing but their subject.
        if topic.name == "SkerryBytes" and chosen:
            allowed = rights.allows(verb, chosen)
        elif chosen:
            allowed = allowed and rights.allows(verb, chosen)
        if allowed and self._may_change(client, verb, topic, payload):
            return True
        self._node.refuse(client, verb, f"{chosen or topic.name}: not permitted", now_ns)
        return False

    def _may_change(self, client: Client, verb: str, topic: Topic, payload: bytes) -> bool:
        """Whether the client may do this where the object is now: to publish it elsewhere takes it
        away from there, and tells all of it to others."""
        rights, plan = client.rights, topic.plan
        assert rights is not None
        pieces = split(plan, payload, 0)
        if plan.key_mask & ~pieces.present:
            # It is no object at all, which is told when it is taken.
            return True
        known = topic.shelf.objects.get(canonical_key(plan, pieces))
        return known is None or not known.subject or rights.allows(verb, known.subject)

    @property
    def request_counts(self) -> RequestCounts:
        """What became of all requests."""
        return self._requests.counts

    @property
    def held_count(self) -> int:
        """How many things are some client's alone."""
        return self._ownership.held_count

    def deadline_ns(self) -> int | None:
        """When to call `advance`; for the storage whoever drives it does."""
        return self._requests.deadline_ns()

    def advance(self, now_ns: int) -> None:
        """Answer what nobody else will any more, and what waited for the storage."""
        self._requests.advance(now_ns)
        journal = self._node.journal
        while self._echoes and journal is not None and self._echoes[0][0] <= journal.stored:
            _, client, reply = self._echoes.popleft()
            if client.is_present:
                reply(self._node.wall_s(now_ns))

    def renew(self, client: Client, own: NamedType, now_ns: int) -> None:
        """A client has other rights: register a type that it described, if it may use it now."""
        self._describing.renew(client, own, now_ns)

    def definition_refusal(self, client: Client, type_name: str, now_ns: int) -> str | None:
        """Why updates of a type by a client are refused, if its definition is incompatible."""
        return self._describing.refusal(client, type_name, now_ns)

    def claim_count(self, client: Client) -> int:
        """How many claims a client has."""
        return self._ownership.claim_count(client)

    def forbidden_claim(self, client: Client) -> str | None:
        """Something that a client holds and may not any more."""
        return self._ownership.forbidden(client)

    def leaving(self, client: Client) -> Iterator[int]:
        """Clean up after a client that disconnected; yields the looks of each step."""
        yield from self._describing.leaving(client)
        yield from self._ownership.leaving(client)
        self._requests.forget(client, self._node.now_ns)

    def _echo(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        message: Any = self._types.class_of(topic).decode(payload)
        if not message.request:
            return
        message.request = False
        journal, number = self._node.journal, int(client.lane.stored_number)

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
        client.when_caught_up(answer, self._node.wall_s(now_ns))

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
                self._node.refuse(client, "clear", f"{name}: {_OURS}", now_ns)
                return
            if not rights.allows_group("clear", name):
                self._node.refuse(client, "clear", f"{name}: not permitted", now_ns)
                return
            known = self._types.topic(name)
            if known is not None and not self._ownership.is_free_for(known, client):
                self._node.refuse(client, "clear", f"{name}: some of it is owned", now_ns)
                return
        if not message.typeNames:
            # It needs no permission, so it must not be forwarded to subscribers of DotsClearCache.
            return
        # What is told when all are gone is what the client said, with its right to say it now.
        told = Countdown(
            1, lambda: self._node.take(client, topic, header, payload, self._node.now_ns)
        )
        for name in dict.fromkeys(message.typeNames):
            cleared = self._types.topic(name)
            if cleared is not None:
                told.count += 1
                self._node.clear(cleared, _hidden(client, cleared), now_ns, told.one_less)
        told.one_less()
        if told.count:
            # An echo that follows has to wait for it.
            self._node.start(client, told, now_ns)

    def _set_rule(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        """A rule about who may connect; the others hear of it without its secret."""
        rights = client.rights
        assert rights is not None
        if not rights.allows_group("administer", topic.name):
            self._node.refuse(client, "administer", f"{topic.name}: not permitted", now_ns)
            return
        message: Any = self._types.class_of(topic).decode(payload)
        is_policy = topic.name == "DotsAuthenticationPolicy"
        if header.remove_obj == 1:
            change = self._admission.remove_policy if is_policy else self._admission.remove_rule
        else:
            change = self._admission.set_policy if is_policy else self._admission.set_rule
        change(message)
        if not is_policy:
            payload = cut(topic.plan, split(topic.plan, payload, 0), ~_SECRET_BIT)
            header.attributes &= ~_SECRET_BIT
        self._node.take(client, topic, header, payload, now_ns)

    def _client(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Take `running` from a client's own DotsClient; the node publishes all other fields."""
        message: Any = self._types.class_of(topic).decode(payload)
        if message.id != client.client_id or header.remove_obj == 1:
            self._node.refuse(client, "publish", "DotsClient: of another than itself", now_ns)
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

    def _only_ours(
        self, client: Client, topic: Topic, header: Header, _payload: bytes, now_ns: int
    ) -> None:
        verb = "remove" if header.remove_obj == 1 else "publish"
        self._node.refuse(client, verb, f"{topic.name}: {_OURS}", now_ns)

    def _only_theirs(self, service: _Service) -> _Service:
        """What only clients say that know our additions."""

        def serve(
            client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
        ) -> None:
            if client.lane.has_subjects:
                service(client, topic, header, payload, now_ns)
            else:
                self._node.drop(client, now_ns, f"{topic.name}: without `extensions`")

        return serve


def _hidden(client: Client, topic: Topic) -> frozenset[bytes]:
    """The objects of a type that the client may not clear, which have subjects of their own."""
    rights, shelf = client.rights, topic.shelf
    assert rights is not None
    if rights.allows_all:
        return frozenset()
    return frozenset(
        key for key in shelf.own_keys if not rights.allows("clear", shelf.objects[key].subject)
    )
