"""What clients ask of the node itself: to join and leave, to describe types, to clear, to echo.

And whether they may: what is not permitted is refused here, before anything of it happens.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from skerry.codec.pieces import canonical_key, cut, split
from skerry.codec.subjects import NO_KEY, default_pattern, default_subject, key_parts
from skerry.engine.admission import Admission
from skerry.engine.clients import Client, Countdown, Later
from skerry.engine.hub import Hub
from skerry.engine.members import Membership
from skerry.engine.query import Query, compile_filter
from skerry.engine.replay import Replay
from skerry.engine.routing import WILD_CARDS, Routing, knows_type
from skerry.engine.topics import Topic
from skerry.engine.types import SPECIAL_TYPES, Learned, Types, common_fields
from skerry.engine.views import Selection, View
from skerry.errors import CodecError, FilterError, LimitExceeded, ProtocolError, SchemaError
from skerry.limits import REPLAY_SORTED_COUNT_MAX, SET_ASIDE_BYTES_MAX
from skerry.objects.descriptors import from_description
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import ALIVE_MARK
from skerry.protocol.access.header import Header
from skerry.protocol.patterns import PatternTree, check_pattern, covers, overlaps
from skerry.schema.model import EnumType, NamedType, StructType

if TYPE_CHECKING:
    from skerry.engine.node import NodeCore

__all__ = ["Services"]

_SECRET_BIT: Final = 1 << 4
"""The field of DotsAuthentication that nobody gets to see."""

_USES: Final = ("publish", "subscribe", "remove")
"""What one needs to know a type for."""

_NAMES: Final = re.compile(r"[^<>\s]+")
"""In the text of a field's type, of which one may be made of another: `vector<Place>`."""

_EVERYTHING: Final = "/..."
"""The pattern that selects every subject."""

_Wanted = tuple[Topic, list[bytes] | None]
"""Objects of a topic, by their keys; None for all there are."""

_Service = Callable[[Client, Topic, Header, bytes, int], None]


class Services:
    """Everything a client can say to the node."""

    def __init__(
        self, node: NodeCore, hub: Hub, routing: Routing, types: Types, admission: Admission
    ) -> None:
        self._node = node
        self._hub = hub
        self._routing = routing
        self._types = types
        self._admission = admission
        self._echoes: deque[tuple[int, Client, Callable[[float], None]]] = deque()
        """Answers that wait until what was published before them is stored."""
        self._offering: dict[int, Client] = {}
        """Clients that speak plain DOTS and described types."""
        self._services: dict[str, _Service] = {
            "DotsAuthentication": self._set_rule,
            "DotsAuthenticationPolicy": self._set_rule,
            "DotsClearCache": self._clear,
            "DotsClient": self._client,
            "DotsClientStatistics": self._only_ours,
            "DotsDaemonStatus": self._only_ours,
            "DotsDescriptorRequest": self._descriptor_request,
            "DotsEcho": self._echo,
            "DotsMember": self._member,
            "EnumDescriptorData": self._describe,
            "SkerryConflict": self._only_ours,
            "SkerryLedger": self._only_ours,
            "SkerryLink": self._only_ours,
            "SkerryLoss": self._only_ours,
            "SkerryRefusal": self._only_ours,
            "StructDescriptorData": self._describe,
        }
        assert set(self._services) == SPECIAL_TYPES

    def serve(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> bool:
        """Act on what is meant for the node; whether it was."""
        service = self._services.get(topic.name)
        if service is None:
            return False
        service(client, topic, header, payload, now_ns)
        if client.asks_too_much and client.is_present:
            why = f"{client.owed_count} questions and {len(client.agenda)} tasks wait"
            self._node.drop(client, now_ns, f"{topic.name}: {why}", reason="slow")
        return True

    def is_permitted(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> bool:
        """Whether a client may publish or remove this now; if not, it was told."""
        if client.meter is not None:
            why = client.meter.spend(1, len(payload), now_ns)
            if why is not None:
                self._node.drop(client, now_ns, f"{topic.name}: {why}", reason="too much")
                return False
        rights = client.rights
        assert rights is not None
        if rights.allows_all:
            return True
        if topic.name in SPECIAL_TYPES:
            _settle_subject(client, header)
            return True
        verb = "remove" if header.remove_obj == 1 else "publish"
        chosen = header.subject if client.lane.has_subjects else ""
        allowed = rights.allows_type(verb, topic.name)
        if allowed is None:
            own = default_subject(topic.plan, split(topic.plan, payload, 0))
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

    def release_echoes(self, now_ns: int) -> None:
        """Answer what waited for the storage, as far as that has come."""
        journal = self._node.journal
        while self._echoes and journal is not None and self._echoes[0][0] <= journal.stored:
            _, _, reply = self._echoes.popleft()
            reply(self._node.wall_s(now_ns))

    def forget(self, client: Client) -> None:
        """A client is gone."""
        self._offering.pop(client.client_id, None)
        if any(waiting is client for _, waiting, _ in self._echoes):
            self._echoes = deque(item for item in self._echoes if item[1] is not client)

    # -- joining

    def _member(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        message: Any = self._types.class_of(topic).decode(payload)
        group = message.groupName
        if group is None or message.event is None:
            self._node.drop(client, now_ns, "DotsMember: without groupName or event")
        elif message.event.label == "join":
            self._join(client, message, now_ns)
        elif message.event.label == "leave":
            if message.subscriptionId is not None:
                self._routing.remove_view(client, group, message.subscriptionId)
            else:
                self._routing.leave(client, group)

    def _join(self, client: Client, message: Any, now_ns: int) -> None:
        group, limits = message.groupName, client.limits
        rights = client.rights
        assert rights is not None
        if group.startswith("/"):
            group = check_pattern(group)
        if not rights.allows_group("subscribe", group):
            self._node.refuse(client, "subscribe", f"{group}: not permitted", now_ns, join=message)
        elif message.subscriptionId is not None:
            self._open_view(client, message, now_ns)
        elif group not in client.groups and len(client.groups) >= limits.join_count_max:
            reason = f"{group}: {limits.join_count_max} groups joined already"
            self._node.refuse(client, "subscribe", reason, now_ns, join=message)
        else:
            is_conflating = _is_conflating(message)
            member = self._routing.join(client, group, is_conflating=is_conflating)
            self._replay(member, now_ns)
            if group == "SkerryLedger":
                self._node.watch_ledger(now_ns)

    def _replay(self, member: Membership, now_ns: int) -> None:
        """Tell a member what is there; if it is being told already, all over again after that."""
        now_s = self._node.wall_s(now_ns)
        if member.replay_count:
            member.replay_count += 1
            again = Later(lambda: self._begin_replay(member, now_s))
            self._node.start(member.client, again, now_ns)
            return
        member.replay_count = 1
        replay = self._begin_replay(member, now_s)
        if replay is not None:
            self._node.start(member.client, replay, now_ns)

    def _begin_replay(self, member: Membership, now_s: float) -> Replay | None:
        client = member.client
        is_member = self._routing.find(client, member.group) is member

        def finish(now_s: float) -> None:
            member.replay_count -= 1
            self._routing.replay_ended(member)
            self._tell_end(client, member.group, now_s)

        # Who left meanwhile is told nothing but that this is over: it may count the answers.
        wanted = self._wanted(member) if is_member else []
        if wanted is None:
            member.replay_count -= 1
            return None
        replay = Replay(member.teller, wanted, finish)
        for topic, keys in wanted:
            if keys is None or keys:
                client.connection.describe(topic.type, now_s)
        if replay.left:
            member.active_replay = replay
            self._routing.replay_began(member)
        return replay

    def _wanted(self, member: Membership) -> list[_Wanted] | None:
        """The cached objects that a member is to be told; None where it is told nothing at all."""
        client, group = member.client, member.group
        if group.startswith("/"):
            return self._selected(client, group)
        topic = self._types.topic(group)
        if topic is None or not topic.is_cached or not knows_type(client, topic.name):
            return None
        if _sees_all(client) and len(topic.shelf.objects) > REPLAY_SORTED_COUNT_MAX:
            return [(topic, None)]
        return [(topic, self._permitted(client, topic, "subscribe"))]

    def _selected(self, client: Client, pattern: str) -> list[_Wanted]:
        """The cached objects that a pattern selects.

        Where it selects all of a topic they are not listed, unless they are few.
        """
        found: list[_Wanted] = []
        listed_count = 0
        for topic in self._hub.topics.values():
            if not topic.is_cached or not topic.shelf.objects:
                continue
            if not knows_type(client, topic.name):
                continue
            if _sees_all(client) and _selects_all(topic, pattern):
                is_listed = listed_count + len(topic.shelf.objects) <= REPLAY_SORTED_COUNT_MAX
                found.append((topic, list(topic.shelf.objects) if is_listed else None))
                listed_count += is_listed * len(topic.shelf.objects)
            elif keys := _selected_keys(topic, pattern):
                found.append((topic, keys))
        return found

    def _permitted(self, client: Client, topic: Topic, verb: str) -> list[bytes]:
        """The objects of a type with whose subjects the client may do this."""
        rights = client.rights
        assert rights is not None
        objects = topic.shelf.objects
        if rights.allows_all:
            return list(objects)
        return [
            key
            for key, entry in objects.items()
            if not entry.subject or rights.allows(verb, entry.subject)
        ]

    def _open_view(self, client: Client, message: Any, now_ns: int) -> None:
        name = message.groupName
        topic = self._types.topic(name)
        wanted = message.filter or internal_class("DotsFilter")()
        fault = "there is no such type"
        query: Query | None = None
        if topic is not None:
            try:
                query = compile_filter(wanted, topic.type)
            except FilterError as error:
                fault = str(error)
        if query is None or topic is None or not knows_type(client, name):
            # Others are told nothing, as by other hosts: a client that can be told is.
            if client.lane.has_subjects:
                self._node.refuse(client, "filter", f"{name:.60}: {fault}", now_ns, join=message)
            return
        is_new = (name, message.subscriptionId) not in client.views
        if is_new and len(client.views) >= client.limits.view_count_max:
            reason = f"{name}: {len(client.views)} filtered subscriptions already"
            self._node.refuse(client, "subscribe", reason, now_ns, join=message)
            return
        view = View(
            client,
            topic,
            self._hub,
            number=message.subscriptionId,
            query=query,
            is_conflating=_is_conflating(message),
            is_replacing=not is_new,
        )
        self._routing.add_view(view)
        if topic.is_cached:
            self._replay_view(view, now_ns)

    def _replay_view(self, view: View, now_ns: int) -> None:
        def finish(now_s: float) -> None:
            self._tell_end(view.client, view.topic.name, now_s)

        self._node.start(view.client, Selection(view, finish), now_ns)

    def _tell_end(self, client: Client, group: str, now_s: float) -> None:
        info = internal_class("DotsCacheInfo")(typeName=group, endTransmission=True)
        client.connection.send_message(info, now_s)

    # -- types

    def _describe(
        self, client: Client, topic: Topic, header: Header, payload: bytes, now_ns: int
    ) -> None:
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
        _settle_subject(client, header)
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

    def _descriptor_request(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        message: Any = self._types.class_of(topic).decode(payload)
        wanted, unwanted = message.whitelist or (), message.blacklist or ()
        registry = self._types.registry

        def answer(now_s: float) -> None:
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
        client.when_caught_up(answer, self._node.wall_s(now_ns))

    # -- the rest

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
            if not rights.allows_group("clear", name):
                self._node.refuse(client, "clear", f"{name}: not permitted", now_ns)
                return
        # What is told when all are gone is what the client said, with its right to say it now.
        told = Countdown(
            1, lambda: self._node.take(client, topic, header, payload, self._node.now_ns)
        )
        for name in dict.fromkeys(message.typeNames):
            cleared = self._types.topic(name)
            if cleared is not None:
                keys = self._permitted(client, cleared, "clear")
                if len(keys) <= REPLAY_SORTED_COUNT_MAX:
                    keys.sort()
                told.count += 1
                self._node.sweep(cleared, keys, now_ns, told.one_less)
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
        """What a client says of itself; of others, and of who is there, only the node speaks."""
        message: Any = self._types.class_of(topic).decode(payload)
        if message.id != client.client_id or header.remove_obj == 1:
            self._node.refuse(client, "publish", "DotsClient: of another than itself", now_ns)
            return
        self._node.take(client, topic, header, payload, now_ns)

    def _only_ours(
        self, client: Client, topic: Topic, _header: Header, _payload: bytes, now_ns: int
    ) -> None:
        self._node.drop(client, now_ns, f"{topic.name}: only a node says this")


def _part_names(message: Any) -> list[str]:
    """The names in the types of all fields that a StructDescriptorData has."""
    fields = getattr(message, "properties", None) or ()
    return [name for field in fields for name in _NAMES.findall(field.type or "")]


def _concerns(client: Client, type_name: str) -> bool:
    """Whether a client may do anything with objects of a type."""
    rights = client.rights
    assert rights is not None
    return any(rights.allows_type(verb, type_name) is not False for verb in _USES)


def _settle_subject(client: Client, header: Header) -> None:
    """What is for the node needs no subject: one where the client may not publish is left out."""
    rights = client.rights
    assert rights is not None
    if header.subject and not rights.allows("publish", header.subject):
        header.subject = ""


def _is_conflating(message: Any) -> bool:
    return message.slow is not None and message.slow.label == "conflate"


def _sees_all(client: Client) -> bool:
    """Whether there is nothing that a client may not be told."""
    rights = client.rights
    return rights is not None and rights.allows_all


def _selects_all(topic: Topic, pattern: str) -> bool:
    """Whether a pattern selects the subject of each object of a topic, known without a look."""
    if not covers(pattern, default_pattern(topic.plan)):
        return False
    return topic.shelf.own_subject_count == 0 or covers(pattern, _EVERYTHING)


def _selected_keys(topic: Topic, pattern: str) -> list[bytes]:
    """The objects of a topic whose subjects a pattern selects."""
    objects, plan = topic.shelf.objects, topic.plan
    own = default_pattern(plan)
    is_whole, is_part = covers(pattern, own), overlaps(pattern, own)
    if not is_part and topic.shelf.own_subject_count == 0:
        return []
    tree = PatternTree()
    tree.add(pattern, True)
    levels = [None if level in WILD_CARDS else level for level in pattern.split("/")[2:]]
    start, *rest = key_parts(plan, levels) if is_part else [NO_KEY]
    found: list[bytes] = []
    for key, entry in objects.items():
        if entry.subject:
            is_wanted = tree.matches_any(entry.subject)
        elif is_whole or not key.startswith(start) or not all(part in key for part in rest):
            is_wanted = is_whole
        else:
            is_wanted = tree.matches_any(default_subject(plan, split(plan, entry.payload, 0)))
        if is_wanted:
            found.append(key)
    return found
