"""Clients join and leave groups, open filtered subscriptions, and receive the cached objects.

A join that costs little is answered at once. A cache replay that has to examine many objects is put
on the agenda of the client and done in slices. Until it begins, the client receives every update as
a whole object; while it runs, the replay decides for each object whether it is still to be sent.
"""

from __future__ import annotations

from typing import Any, Final

from skerry.engine.admission.permissions import Rights
from skerry.engine.clients import Client, Later
from skerry.engine.connections.service_host import ServiceHost
from skerry.engine.delivery.cache_replay import CacheReplay, Wanted
from skerry.engine.delivery.filtered_subscription import FilteredObjects, FilteredSubscription
from skerry.engine.delivery.group_members import Membership
from skerry.engine.delivery.query import Query, compile_filter
from skerry.engine.delivery.replay_parts import ReplayChoice
from skerry.engine.delivery.replay_selection import (
    FilterChoice,
    PatternChoice,
    named_keys,
    selects_all,
)
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.pattern_reach import PatternReach
from skerry.engine.dispatch.routing import Routing, knows_type
from skerry.engine.dispatch.topics import Topic
from skerry.engine.types.type_descriptions import DefinitionList
from skerry.engine.types.type_table import TypeTable
from skerry.errors import FilterError, LimitExceeded
from skerry.limits import REPLAY_SORTED_COUNT_MAX, SELECT_SLICE_COUNT
from skerry.objects.internal import internal_class
from skerry.protocol.access.header import Header
from skerry.protocol.patterns import check_pattern

_LISTED_PER_WORK_UNIT: Final = REPLAY_SORTED_COUNT_MAX // SELECT_SLICE_COUNT
"""Keys that take as long to list and to sort as it takes to examine an object."""

_WORK_PER_TOPIC: Final = 10
"""Work units for finding the objects of one type that a pattern selects by its levels alone."""


class Joining:
    def __init__(
        self, node: ServiceHost, dispatcher: Dispatcher, routing: Routing, types: TypeTable
    ) -> None:
        self._node = node
        self._dispatcher = dispatcher
        self._routing = routing
        self._types = types

    def take(
        self, client: Client, topic: Topic, _header: Header, payload: bytes, now_ns: int
    ) -> None:
        """Process a DotsMember: the client joins or leaves a group."""
        message: Any = self._types.class_of(topic).decode(payload)
        group = message.groupName
        if group is None or message.event is None:
            self._node.drop(client, now_ns, "DotsMember: without groupName or event")
        elif message.event.label == "join":
            self._join(client, message, now_ns)
        elif message.event.label == "leave":
            if message.subscriptionId is not None:
                self._routing.remove_filtered(client, group, message.subscriptionId)
            else:
                self._routing.leave(client, group)

    def _join(self, client: Client, message: Any, now_ns: int) -> None:
        group, limits = message.groupName, client.limits
        if group.startswith("/"):
            group = check_pattern(group)
        if not _rights(client).allows_group("subscribe", group):
            self._node.refuse(client, "subscribe", f"{group}: not permitted", now_ns, join=message)
        elif message.subscriptionId is not None:
            self._open_filtered(client, message, now_ns)
        elif group not in client.groups and len(client.groups) >= limits.join_count_max:
            reason = f"{group}: {limits.join_count_max} groups joined already"
            self._node.refuse(client, "subscribe", reason, now_ns, join=message)
        else:
            is_conflating = _is_conflating(message)
            try:
                member = self._routing.join(client, group, is_conflating=is_conflating)
            except LimitExceeded as error:
                reason = f"{group:.60}: {error}"
                self._node.refuse(client, "subscribe", reason, now_ns, join=message)
                return
            self._replay(member, now_ns)
            if group == "SkerryLedger":
                self._node.status_objects.watch_ledger(now_ns)
            elif group == "SkerryDefinition" and client.queue.has_subjects:
                task = DefinitionList(client, self._types.registry)
                self._node.start(client, task, now_ns)

    # -- groups

    def _replay(self, member: Membership, now_ns: int) -> None:
        """Start a cache replay for a member; if one is running already, after that one."""
        client = member.client

        def begin() -> CacheReplay | None:
            # A client that has left meanwhile receives only the end mark: it may count them.
            is_member = self._routing.find(client, member.group) is member
            wanted = self._wanted(member) if is_member else []
            if member.is_waiting:
                self._routing.wait(member, is_over=True)
            return self._begin_replay(member, wanted)

        member.replay_count += 1
        if member.replay_count > 1:
            self._node.start(client, Later(begin), now_ns)
            return
        wanted = self._wanted(member) if client.queue.work_left > 0 else None
        if client.queue.work_left <= 0 or (client.agenda and _has_choice(wanted)):
            # So at most one replay of a client selects its objects at a time. Each such replay is
            # one more listener for all publishers.
            self._routing.wait(member)
            self._node.start(client, Later(begin), now_ns)
            return
        replay = self._begin_replay(member, wanted)
        if replay is not None:
            self._node.start(client, replay, now_ns)

    def _begin_replay(self, member: Membership, wanted: list[Wanted] | None) -> CacheReplay | None:
        client = member.client
        if wanted is None:
            member.replay_count -= 1
            return None

        def finish(now_s: float) -> None:
            member.replay_count -= 1
            self._routing.replay_ended(member)
            self._send_end(client, member.group, now_s)

        replay = CacheReplay(member.replay_output, wanted, finish)
        if not replay.is_empty:
            member.active_replay = replay
            self._routing.replay_began(member)
        return replay

    def _wanted(self, member: Membership) -> list[Wanted] | None:
        """The cached objects to be replayed to a member; None if there is no replay at all."""
        client, group = member.client, member.group
        if group.startswith("/"):
            return self._selected(client, group)
        topic = self._types.topic(group)
        if topic is None or not topic.is_cached or not knows_type(client, topic):
            return None
        rights = _rights(client)
        if topic.type_cache.own_keys and not rights.allows_objects:
            return [(topic, FilterChoice(lambda subject: rights.allows("subscribe", subject)))]
        if len(topic.type_cache.objects) > REPLAY_SORTED_COUNT_MAX:
            return [(topic, None)]
        return [(topic, _listed(client, topic))]

    def _selected(self, client: Client, pattern: str) -> list[Wanted]:
        """The cached objects that a pattern selects; the client may subscribe to all of them.

        If the pattern selects all objects of a topic, they are only listed if they are few.
        """
        found: list[Wanted] = []
        listed_count = examined_count = 0
        reach = PatternReach(pattern)
        topic_count = 0
        for topic in self._dispatcher.all_topics():
            if not topic.is_cached or not topic.type_cache.objects:
                continue
            if not (topic.type_cache.own_keys or reach.has(topic)) or not knows_type(client, topic):
                continue
            topic_count += 1
            if selects_all(topic, pattern):
                is_listed = listed_count + len(topic.type_cache.objects) <= REPLAY_SORTED_COUNT_MAX
                found.append((topic, _listed(client, topic) if is_listed else None))
                listed_count += is_listed * len(topic.type_cache.objects)
                continue
            keys = named_keys(topic, pattern, SELECT_SLICE_COUNT - examined_count)
            if keys is None:
                found.append((topic, PatternChoice(topic, pattern)))
                continue
            examined_count += len(topic.type_cache.own_keys)
            if keys:
                found.append((topic, keys))
        client.queue.work_left -= examined_count + topic_count * _WORK_PER_TOPIC
        return found

    # -- filtered subscriptions

    def _open_filtered(self, client: Client, message: Any, now_ns: int) -> None:
        name = message.groupName
        topic = self._types.topic(name)
        wanted = message.filter or internal_class("DotsFilter")()
        fault = "there is no such type"
        query: Query | None = None
        type_ = None if topic is None else client.query_type(topic)
        if type_ is not None:
            try:
                query = compile_filter(wanted, type_)
            except FilterError as error:
                fault = str(error)
        if query is None or topic is None or type_ is None or not knows_type(client, topic):
            # Clients without extensions are not notified, as by DOTS hosts.
            if client.queue.has_subjects:
                self._node.refuse(client, "filter", f"{name:.60}: {fault}", now_ns, join=message)
            return
        at = (name, message.subscriptionId)
        reason = _excess(client, at, query)
        if reason is not None:
            self._node.refuse(client, "subscribe", f"{name}: {reason}", now_ns, join=message)
            return
        subscription = FilteredSubscription(
            client,
            topic,
            self._dispatcher,
            self._node.shares,
            number=message.subscriptionId,
            query=query,
            filter_=wanted,
            type_=type_,
            is_conflating=_is_conflating(message),
            is_replacing=at in client.filtered_subscriptions,
        )
        try:
            self._routing.add_filtered(subscription)
        except LimitExceeded as error:
            subscription.close()
            self._node.refuse(client, "subscribe", f"{name}: {error}", now_ns, join=message)
            return
        if topic.is_cached:
            self._replay_filtered(subscription, message, now_ns)

    def _replay_filtered(
        self, subscription: FilteredSubscription, message: Any, now_ns: int
    ) -> None:
        client, name = subscription.client, subscription.topic.name

        def finish(now_s: float) -> None:
            self._send_end(client, name, now_s)

        def refuse(error: LimitExceeded) -> None:
            self._routing.remove_filtered(client, name, subscription.number)
            self._node.refuse(client, "subscribe", f"{name}: {error}", now_ns, join=message)

        self._node.start(client, FilteredObjects(subscription, finish, refuse), now_ns)

    def _send_end(self, client: Client, group: str, now_s: float) -> None:
        info = internal_class("DotsCacheInfo")(typeName=group, endTransmission=True)
        client.connection.send_message(info, now_s)


def _rights(client: Client) -> Rights:
    assert client.rights is not None
    return client.rights


def _is_conflating(message: Any) -> bool:
    return message.slow is not None and message.slow.label == "conflate"


def _has_choice(wanted: list[Wanted] | None) -> bool:
    return wanted is not None and any(isinstance(which, ReplayChoice) for _, which in wanted)


def _listed(client: Client, topic: Topic) -> list[bytes]:
    """The keys of all objects of a topic; listing them counts as work for the client."""
    keys = list(topic.type_cache.objects)
    client.queue.work_left -= len(keys) // _LISTED_PER_WORK_UNIT
    return keys


def _excess(client: Client, at: tuple[str, int], query: Query) -> str | None:
    """Why a client may not have one more filtered subscription; None if it may.

    A subscription with the same type and number is replaced and does not count.
    """
    limits, others = (
        client.limits,
        {key: n for key, n in client.filtered_subscriptions.items() if key != at},
    )
    if len(others) >= limits.view_count_max:
        return f"{len(others)} filtered subscriptions already"
    part_count = sum(others.values()) + query.part_count
    if part_count > limits.view_part_count_max:
        return (
            f"{part_count} comparisons in all filtered subscriptions,"
            f" the limit is {limits.view_part_count_max}"
        )
    return None
