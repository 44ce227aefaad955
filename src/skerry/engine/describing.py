"""The types that clients describe: learnt, set aside, compared, and described to others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from skerry.engine.clients import Client
from skerry.engine.hub import Hub
from skerry.engine.routing import Routing
from skerry.engine.topics import Topic
from skerry.engine.types import Learned, Types, common_fields
from skerry.errors import CodecError, LimitExceeded, ProtocolError, SchemaError
from skerry.limits import SET_ASIDE_BYTES_MAX
from skerry.objects.descriptors import from_description
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.schema.model import EnumType, NamedType, StructType

if TYPE_CHECKING:
    from skerry.engine.node import NodeCore

__all__ = ["Describing", "settle_subject"]

_USES: Final = ("publish", "subscribe", "remove")
"""What one needs to know a type for."""

_NAMES: Final = re.compile(r"[^<>\s]+")
"""In the text of a field's type, of which one may be made of another: `vector<Place>`."""


class Describing:
    """All that clients say and ask about types."""

    def __init__(self, node: NodeCore, hub: Hub, routing: Routing, types: Types) -> None:
        self._node = node
        self._hub = hub
        self._routing = routing
        self._types = types
        self._offering: dict[int, Client] = {}
        """Clients that speak plain DOTS and described types."""

    def forget(self, client: Client) -> None:
        """A client is gone."""
        self._offering.pop(client.client_id, None)

    def take(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        """A description of a type, to be learnt or to be set aside."""
        message: Any = self._types.class_of(topic).decode(payload)
        name = message.name or ""
        is_new = not client.connection.is_described(name) and name not in client.set_aside
        if is_new and client.type_count >= client.limits.type_count_max:
            reason = f"{client.type_count} types described already"
            self._node.refuse(client, "describe", reason, now_ns)
            return
        if name and not _concerns(client, name):
            # Who has no business with a type must not decide what it is for all others. It may be
            # a part of one that the client has business with, and that comes later.
            others = [known for other, (_, known) in client.set_aside.items() if other != name]
            if sum(map(len, others)) + len(payload) > SET_ASIDE_BYTES_MAX:
                self._node.refuse(client, "describe", f"{name:.60}: not permitted", now_ns)
                return
            client.type_count += is_new
            client.set_aside[name] = (header, payload)
            if not client.lane.has_subjects:
                # It may hear of objects of it all the same, by a subject pattern.
                client.connection.note_described(name)
                self._note_offer(client, self._understood(client, message))
            return
        client.type_count += is_new
        self._learn_parts(client, message, now_ns)
        self._learn(client, topic, header, payload, now_ns)

    def renew(self, client: Client, now_ns: int) -> None:
        """A client has other rights: learn what it described and may use now."""
        try:
            for name in list(client.set_aside):
                if name in client.set_aside and _concerns(client, name):
                    self._learn_parts(client, self._described(client, name), now_ns)
                    self._take_up(client, name, now_ns)
        except (CodecError, LimitExceeded, ProtocolError, SchemaError) as error:
            self._node.drop(client, now_ns, str(error))

    def answer(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        """A DotsDescriptorRequest: describe what the client does not know yet."""
        message: Any = self._types.class_of(topic).decode(payload)
        wanted, unwanted = message.whitelist or (), message.blacklist or ()
        registry = self._types.registry

        def describe(now_s: float) -> None:
            client.answered(len(payload))
            for name in sorted(registry):
                type_ = registry[name]
                if isinstance(type_, EnumType) or type_.flags.internal:
                    continue
                if not _concerns(client, name):
                    continue
                if (not wanted or name in wanted) and name not in unwanted:
                    client.connection.describe(type_, now_s)
            info = internal_class("DotsCacheInfo")(endDescriptorRequest=True)
            client.connection.send_message(info, now_s)

        client.asked(len(payload))
        client.when_caught_up(describe, self._node.wall_s(now_ns))

    def _learn_parts(self, client: Client, message: Any, now_ns: int) -> None:
        """Learn what a described type is made of, as far as that was set aside."""
        found: dict[str, None] = {}
        unread = [message]
        while unread:
            for name in _part_names(unread.pop()):
                if name in client.set_aside and name not in found:
                    found[name] = None
                    unread.append(self._described(client, name))
        # In the order in which they came: what a type is made of comes before it.
        for name in [name for name in client.set_aside if name in found]:
            self._take_up(client, name, now_ns)

    def _take_up(self, client: Client, name: str, now_ns: int) -> None:
        """Learn a type that was set aside."""
        header, payload = client.set_aside.pop(name)
        topic = self._types.topic(header.type_name)
        assert topic is not None
        settle_subject(client, header)
        self._learn(client, topic, header, payload, now_ns)

    def _described(self, client: Client, name: str) -> Any:
        """The description of a type that was set aside."""
        header, payload = client.set_aside[name]
        return internal_class(header.type_name).decode(payload)

    def _learn(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
        if not client.is_present:
            # It was cut for a fault in what came before.
            return
        message: Any = self._types.class_of(topic).decode(payload)
        origin = f"client {client.client_id} ({client.name})"
        is_known = message.name in self._types.registry
        learned = self._types.learn(message, origin=origin)
        found = learned.type
        self._node.forget_described(learned.redefined)
        client.connection.note_described(found.name)
        if learned.conflict is not None:
            self._node.tell_conflict(client, learned.conflict, now_ns)
        now_s = self._node.wall_s(now_ns)
        self._compare_again(learned, is_known=is_known)
        if not client.lane.has_subjects:
            self._note_offer(client, learned.offered)
        elif learned.conflict is not None:
            # It is told the definition in use, and can tell objects of it from broken ones.
            client.connection.forget_described(found.name)
            client.connection.describe(found, now_s)
        # Who follows descriptions is described the type as it is described to all, first.
        for member in self._routing.members(topic.name):
            member.client.connection.describe(found, now_s)
        described = self._hub.topics.get(found.name)
        if described is not None:
            described.forget_routes()
        self._node.take(client, topic, header, payload, now_ns)

    def _understood(self, client: Client, message: Any) -> NamedType:
        """The type in a description that is set aside; one of no fields if it makes no sense."""
        known: dict[str, NamedType] = {}
        for name in _part_names(message):
            part = client.offered.get(name) or self._types.registry.get(name)
            if part is not None:
                known[name] = part
        try:
            return from_description(message, known)
        except SchemaError:
            return StructType(name=message.name, fields=())

    def _note_offer(self, client: Client, offered: NamedType) -> None:
        """A program that speaks plain DOTS described a type."""
        client.offered[offered.name] = offered
        self._offering[client.client_id] = client
        self._note_fields(client, offered.name)

    def _compare_again(self, learned: Learned, *, is_known: bool) -> None:
        """A type is new, or types have other definitions: see what those had in common with it
        who described them before."""
        name = learned.type.name
        for client in self._offering.values() if learned.redefined or not is_known else ():
            # What is made of a redefined type is another type, too.
            names = list(client.offered) if learned.redefined else [name]
            for offered in names:
                if offered in client.offered:
                    # It goes by its own definition, and is not described another.
                    client.connection.note_described(offered)
                    self._note_fields(client, offered)

    def _note_fields(self, client: Client, name: str) -> None:
        """A program that speaks plain DOTS is told what both definitions of a type have.

        It would not be sure to pass over the rest: some skip too much and lose the connection.
        """
        lane, type_ = client.lane, self._types.registry.get(name)
        known = lane.known_fields or {}
        mask = -1
        if type_ is not None:
            mask = common_fields(type_, client.offered[name], frozenset(known))
        if mask == known.get(name, -1):
            return
        if mask == -1:
            del known[name]
        else:
            known[name] = mask
        lane.known_fields = known or None
        topic = self._hub.topics.get(name)
        if topic is not None:
            topic.forget_routes()
        if mask == 0:
            self._routing.stop_telling(client, name)


def settle_subject(client: Client, header: Header) -> None:
    """What is for the node needs no subject: one where the client may not publish is left out."""
    rights = client.rights
    assert rights is not None
    if header.subject and not rights.allows("publish", header.subject):
        header.subject = ""


def _part_names(message: Any) -> list[str]:
    """The names in the types of all fields that a StructDescriptorData has."""
    fields = getattr(message, "properties", None) or ()
    return [name for field in fields for name in _NAMES.findall(field.type or "")]


def _concerns(client: Client, type_name: str) -> bool:
    """Whether a client may do anything with objects of a type."""
    rights = client.rights
    assert rights is not None
    return any(rights.allows_type(verb, type_name) is not False for verb in _USES)
