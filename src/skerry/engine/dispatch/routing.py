"""Routing: which clients receive which updates.

Routing keeps the members of all groups (types and subject patterns) and the filtered subscriptions.
It resolves routes from them. A route is cached in its topic until a change invalidates it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from skerry.codec.pieces import split
from skerry.codec.subjects import default_subject
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.admission.shared_quotas import Resource, SharedQuotas
from skerry.engine.clients import Client
from skerry.engine.delivery.filtered_subscription import FilteredSubscription
from skerry.engine.delivery.group_members import (
    DeniedListener,
    MemberListener,
    MemberOutput,
    Membership,
    ReplayListener,
    may_see,
)
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.group_quotas import GroupQuotas
from skerry.engine.dispatch.pattern_reach import WILD_CARDS, PartialPatterns, PatternReach
from skerry.engine.dispatch.topics import (
    Route,
    RouteResolver,
    Topic,
    UpdateInTransit,
    UpdateListener,
)
from skerry.engine.types.scopes import is_site_message
from skerry.limits import GROUP_COUNT_MAX, PATTERN_MEMO_CHAR_COUNT_MAX
from skerry.protocol.patterns import (
    PatternHandle,
    PatternTree,
    check_pattern,
    check_subject,
    covers,
)

ROUTE_MEMO_COUNT_MAX: Final = 65_536
"""Subjects of one type for which the route is cached. Beyond it the cache is cleared, and routes
are resolved again on demand."""
ROUTE_MEMO_SIZE_MAX: Final = 4_000_000
"""Cached subjects of all types, and receivers in their routes: some hundred megabytes. Beyond it
the cache is cleared, and routes are resolved again on demand."""

_WORK_PER_LEAVE: Final = 10
"""Work units for leaving a group."""
_TOPICS_PER_WORK_UNIT: Final = 4
"""Topics that can be compared with a pattern in the time of one work unit."""
_OWN_TYPE_PREFIX: Final = "Skerry"
"""The prefix of skerry's own types, which foreign programs do not know."""


class Routing(RouteResolver):
    def __init__(
        self, shares: SharedQuotas | None = None, *, group_count_max: int = GROUP_COUNT_MAX
    ) -> None:
        super().__init__()
        self._shares = shares or SharedQuotas(ClientLimits())
        self._quotas = GroupQuotas(self._shares, group_count_max)
        self._dispatcher: Dispatcher | None = None
        self._groups: dict[str, dict[int, Membership]] = {}
        """Members of the groups of types, by type and client id."""
        self._tree = PatternTree()
        self._patterns: dict[str, dict[int, tuple[Membership, PatternHandle]]] = {}
        """Members of the groups of patterns, by pattern and client id."""
        self._partial = PartialPatterns()
        self._filtered: dict[str, dict[tuple[int, int], FilteredSubscription]] = {}
        """Filtered subscriptions by type, client id and number."""
        self._replaying: dict[Membership, None] = {}
        """Members with a cache replay in progress."""
        self._carriers: dict[int, Membership] = {}
        """Clients that carry messages to other nodes, and receive all messages to the site."""
        self._memo_size = 0
        """Cached routes by subject, and clients in them, since the cache was cleared."""

    def attach(self, dispatcher: Dispatcher) -> None:
        """Set the dispatcher that uses the routes."""
        self._dispatcher = dispatcher

    @property
    def group_count(self) -> int:
        return len(self._groups) + len(self._patterns)

    def member_count(self, group: str) -> int:
        """Members of a group, filtered subscriptions included."""
        return (
            len(self._groups.get(group, ()))
            + len(self._patterns.get(group, ()))
            + len(self._filtered.get(group, ()))
        )

    def members(self, type_name: str) -> list[Membership]:
        return list(self._groups.get(type_name, {}).values())

    def find(self, client: Client, group: str) -> Membership | None:
        """The membership of a client in a group; None if it is not a member."""
        if group.startswith("/"):
            held = self._patterns.get(check_pattern(group), {}).get(client.client_id)
            return None if held is None else held[0]
        return self._groups.get(group, {}).get(client.client_id)

    def join(self, client: Client, group: str, *, is_conflating: bool) -> Membership:
        """Add a client to a group, or change whether its updates are conflated.

        Raises LimitExceeded if there are too many groups or memberships; nothing is changed then.
        """
        assert self._dispatcher is not None
        known = self.find(client, group)
        if known is not None:
            known.is_conflating = is_conflating
            self._forget_routes(known.group)
            return known
        is_pattern = group.startswith("/")
        if is_pattern:
            group = check_pattern(group)
        if group not in self._groups and group not in self._patterns:
            self._quotas.check_new_group(client.holder, self.group_count)
        self._quotas.add(client.holder, group)
        self._set_conflated_output(client)
        member = Membership(client, group, self._dispatcher, is_conflating=is_conflating)
        if is_pattern:
            handle = self._tree.add(group, member)
            if group not in self._patterns:
                self._patterns[group] = {}
                self._change_patterns(group, 1)
            self._patterns[group][client.client_id] = (member, handle)
        else:
            self._groups.setdefault(group, {})[client.client_id] = member
        client.groups[group] = None
        client.subscription_change_count += 1
        self._forget_routes(group)
        return member

    def leave(self, client: Client, group: str) -> None:
        """Remove a client from a group; does nothing if it is not a member."""
        member = self.find(client, group)
        if member is None:
            return
        group = member.group
        if group.startswith("/"):
            _, handle = self._patterns[group].pop(client.client_id)
            self._tree.remove(handle)
            if not self._patterns[group]:
                del self._patterns[group]
                self._change_patterns(group, -1)
        else:
            del self._groups[group][client.client_id]
            if not self._groups[group]:
                del self._groups[group]
        if member.is_waiting:
            self.wait(member, is_over=True)
        if member.active_replay is not None:
            member.active_replay.cancel()
            self.replay_ended(member)
        client.groups.pop(group, None)
        self._quotas.remove(client.holder, group)
        client.subscription_change_count += 1
        if client.slots:
            assert client.conflated_output is not None
            client.slots.forget(
                client.conflated_output,
                lambda update: self._is_subscribed_to(client, update),
                is_known=any(other.startswith("/") for other in client.groups),
            )
        self._forget_routes(group)

    def carry(self, client: Client) -> None:
        """Deliver all messages to the site to a client, also of types that are described later."""
        assert self._dispatcher is not None
        self._set_conflated_output(client)
        member = Membership(client, "", self._dispatcher, is_conflating=False)
        self._carriers[client.client_id] = member
        self._forget_message_routes()

    def replay_began(self, member: Membership) -> None:
        """Pass all updates of the replayed topics to the cache replay of a member."""
        self._replaying[member] = None
        assert member.active_replay is not None
        for topic in member.active_replay.topics:
            topic.forget_routes()

    def wait(self, member: Membership, *, is_over: bool = False) -> None:
        """Deliver whole objects to a member whose cache replay has not begun yet.

        With `is_over`, the replay begins now or is not wanted any more.
        """
        assert self._dispatcher is not None
        assert member.is_waiting == is_over
        member.is_waiting = not is_over
        member.client.waiting_count += -1 if is_over else 1
        # All topics: an object may move from a subject that is to be replayed to a subject that the
        # client already receives.
        for topic in self._dispatcher.all_topics():
            if topic.is_cached:
                topic.forget_routes()

    def replay_ended(self, member: Membership) -> None:
        """Note that the cache replay of a member is complete or cancelled."""
        replay, member.active_replay = member.active_replay, None
        self._replaying.pop(member, None)
        if replay is not None:
            for topic in replay.topics:
                topic.forget_routes()

    def add_filtered(self, subscription: FilteredSubscription) -> None:
        """Add a filtered subscription; one of the same client, type and number is replaced.

        Raises LimitExceeded if there are too many; the replaced one is removed even then.
        """
        client, topic, number = subscription.client, subscription.topic, subscription.number
        self.remove_filtered(client, topic.name, number)
        self._shares.take(client.holder, _filtered_usage(subscription))
        self._filtered.setdefault(topic.name, {})[client.client_id, number] = subscription
        client.filtered_subscriptions[topic.name, number] = subscription.part_count
        client.subscription_change_count += 1
        topic.forget_routes()

    def remove_filtered(self, client: Client, type_name: str, number: int) -> None:
        """Remove a filtered subscription; does nothing if there is no such subscription."""
        subscriptions = self._filtered.get(type_name, {})
        subscription = subscriptions.pop((client.client_id, number), None)
        if subscription is None:
            return
        if not subscriptions:
            del self._filtered[type_name]
        subscription.close()
        self._shares.give_back(client.holder, _filtered_usage(subscription))
        del client.filtered_subscriptions[type_name, number]
        client.subscription_change_count += 1
        client.slots.forget(subscription)
        subscription.topic.forget_routes()

    def has_filtered(self, type_name: str) -> bool:
        """Whether there are filtered subscriptions to a type."""
        return type_name in self._filtered

    def excluding(self, client: Client) -> Iterator[int]:
        """Exclude objects that a client may not see any more from its replays in progress.

        It does so step by step, and yields the work units of each step. Until all are done, the
        client is under review, so its replays wait.
        """
        if not _is_restricted(client):
            return
        for group in list(client.groups):
            yield 1
            member = self.find(client, group)
            if member is not None and member.active_replay is not None:
                yield from member.active_replay.excluding(
                    lambda _, entry: not may_see(client, entry.subject)
                )
        for name, number in list(client.filtered_subscriptions):
            yield 1
            subscription = self._filtered.get(name, {}).get((client.client_id, number))
            if subscription is not None:
                yield from subscription.excluding()

    def definition_changed(self, client: Client, topic: Topic) -> None:
        """Apply another definition of a client: subscriptions that it cannot read any more end."""
        if not client.can_read(topic):
            for name, number in list(client.filtered_subscriptions):
                if name == topic.name:
                    self.remove_filtered(client, name, number)
            for member in self._replaying:
                if member.client is client and member.active_replay is not None:
                    member.active_replay.drop_topic(topic)
        topic.forget_routes()

    def leaving(self, client: Client) -> Iterator[int]:
        """Remove all memberships of a client, step by step; yields the work units of each step."""
        assert self._dispatcher is not None
        for group in list(client.groups):
            self.leave(client, group)
            topic_count = len(self._dispatcher.topics) if group.startswith("/") else 0
            yield _WORK_PER_LEAVE + topic_count // _TOPICS_PER_WORK_UNIT
        for name, number in list(client.filtered_subscriptions):
            self.remove_filtered(client, name, number)
            yield _WORK_PER_LEAVE
        if self._carriers.pop(client.client_id, None) is not None:
            self._forget_message_routes()

    def topic_added(self, topic: Topic) -> None:
        """Set whether patterns select a part of the default subjects of a new topic."""
        topic.needs_subject = self._partial.select_part_of(topic)

    def topic_redefined(self, topic: Topic) -> None:
        """Apply another definition of a type to its filtered subscriptions.

        Those of clients that cannot read it are removed.
        """
        for subscription in list(self._filtered.get(topic.name, {}).values()):
            if subscription.client.can_read(topic):
                subscription.topic_redefined()
            else:
                self.remove_filtered(subscription.client, topic.name, subscription.number)

    def resolve(self, topic: Topic, subject: str) -> Route:
        """Resolve and cache the route of a topic, for a subject or for all default ones."""
        if subject:
            _check(subject, topic)
        queues: list[ClientQueue] = []
        listeners: list[UpdateListener] = []
        replaying = [member for member in self._replaying if _is_replaying(member, topic)]
        subscribed: set[int] = set()
        for client_id, memberships in self._subscribers(topic, subject).items():
            client = memberships[0].client
            is_hidden = not may_see(client, subject)
            if client.is_under_review:
                memberships = [m for m in memberships if not m.group or _may_join(client, m.group)]
            if not memberships or is_hidden or not client.can_read(topic):
                listeners.append(DeniedListener(client))
                continue
            subscribed.add(client_id)
            for member in replaying:
                if member.client is client and member not in memberships:
                    memberships.append(member)
            if _needs_frame_only(memberships, topic):
                queues.append(client.queue)
            else:
                listeners.append(MemberListener(memberships, topic.forget_routes))
        for subscription in self._filtered.get(topic.name, {}).values():
            client = subscription.client
            is_denied = client.is_under_review and not _may_join(client, topic.name)
            listeners.append(DeniedListener(client) if is_denied else subscription)
        others = [member for member in replaying if member.client.client_id not in subscribed]
        listeners.extend(ReplayListener(member) for member in others)
        route = Route(queues, listeners)
        if not subject:
            topic.route = route
        elif len(subject) <= PATTERN_MEMO_CHAR_COUNT_MAX:
            self._cache_route(topic, subject, route)
        return route

    def _cache_route(self, topic: Topic, subject: str, route: Route) -> None:
        """Cache the route of a subject; the cache is cleared when it takes too much."""
        assert self._dispatcher is not None
        if len(topic.routes) >= ROUTE_MEMO_COUNT_MAX:
            topic.routes.clear()
        # Routes that were invalidated since are still counted, so there are no more than that.
        size = 1 + len(route.queues) + len(route.listeners)
        self._memo_size += size
        if self._memo_size > ROUTE_MEMO_SIZE_MAX:
            self._memo_size = size
            for other in self._dispatcher.all_topics():
                other.routes.clear()
        topic.routes[subject] = route

    def _subscribers(self, topic: Topic, subject: str) -> dict[int, list[Membership]]:
        """The subscribers by client id, each with all memberships that select the subject."""
        found: dict[int, list[Membership]] = {}
        for member in self._groups.get(topic.name, {}).values():
            found.setdefault(member.client.client_id, []).append(member)
        if self._carriers and is_site_message(topic.type):
            for client_id, member in self._carriers.items():
                if _may_join(member.client, topic.name):
                    found.setdefault(client_id, []).append(member)
        # The pattern of all default subjects, taken as a subject, is matched by the patterns that
        # cover it.
        for value in self._tree.match(subject or topic.pattern):
            assert isinstance(value, Membership)
            found.setdefault(value.client.client_id, []).append(value)
        if topic.name.startswith(_OWN_TYPE_PREFIX):
            return {at: m for at, m in found.items() if m[0].client.queue.has_subjects}
        return found

    def _set_conflated_output(self, client: Client) -> None:
        """Create the output for conflated updates of a client, before its first membership."""
        dispatcher = self._dispatcher
        assert dispatcher is not None

        def is_subscribed(topic: Topic, entry: Entry) -> bool:
            return self._is_subscriber(client, topic, entry.subject, entry.payload)

        if client.conflated_output is None:
            client.conflated_output = MemberOutput(client, dispatcher, is_subscribed)

    def _is_subscribed_to(self, client: Client, update: UpdateInTransit) -> bool:
        """Whether a client is in a group that selects an update."""
        return self._is_subscriber(client, update.topic, update.subject, update.payload)

    def _is_subscriber(self, client: Client, topic: Topic, subject: str, payload: bytes) -> bool:
        if not may_see(client, subject):
            return False
        subject = subject or default_subject(topic.plan, split(topic.plan, payload, 0))
        return client.client_id in self._subscribers(topic, subject)

    def _change_patterns(self, pattern: str, change: int) -> None:
        """Note a pattern that was added (1) or removed (-1) in the topics that it selects from."""
        assert self._dispatcher is not None
        reach = PatternReach(pattern)
        if reach.is_whole:
            return
        self._partial.change(reach, change)
        for topic in self._dispatcher.all_topics():
            if reach.has(topic):
                topic.needs_subject = self._partial.select_part_of(topic)

    def _forget_message_routes(self) -> None:
        """Invalidate the routes of messages to the site."""
        assert self._dispatcher is not None
        for topic in self._dispatcher.all_topics():
            if is_site_message(topic.type):
                topic.forget_routes()

    def _forget_routes(self, group: str) -> None:
        """Invalidate the routes that depend on a group."""
        assert self._dispatcher is not None
        if not group.startswith("/"):
            # An outdated topic resolves its routes again in any case.
            topic = self._dispatcher.topics.get(group)
            if topic is not None:
                topic.forget_routes()
            return
        reach = PatternReach(group)
        for topic in self._dispatcher.all_topics():
            # A pattern may select objects of any type that are not under their default subject.
            if topic.routes or reach.has(topic):
                topic.forget_routes()


def knows_type(client: Client, topic: Topic) -> bool:
    """Whether a client can receive objects of a type.

    Skerry's own types are not described, and not all clients know them. A client may also have a
    definition whose keys differ from the served one.
    """
    is_known = bool(client.queue.has_subjects) or not topic.name.startswith(_OWN_TYPE_PREFIX)
    return is_known and client.can_read(topic)


def _filtered_usage(subscription: FilteredSubscription) -> dict[Resource, int]:
    return {Resource.VIEWS: 1, Resource.VIEW_PARTS: int(subscription.part_count)}


def _is_replaying(member: Membership, topic: Topic) -> bool:
    replay = member.active_replay
    if replay is None or not replay.includes(topic):
        return False
    return not member.client.is_under_review or _may_join(member.client, member.group)


def _check(subject: str, topic: Topic) -> None:
    """Raise LocalProtocolError if a subject is invalid.

    Default subjects contain whole keys and may be of any length, as no client chose them.
    """
    is_default = topic.needs_subject and covers(topic.pattern, subject)
    if not is_default or any(level in WILD_CARDS for level in subject.split("/")):
        check_subject(subject)


def _is_restricted(client: Client) -> bool:
    rights = client.rights
    return rights is not None and not rights.allows_objects


def _may_join(client: Client, type_name: str) -> bool:
    rights = client.rights
    assert rights is not None
    return rights.allows_objects or rights.allows_group("subscribe", type_name)


def _needs_frame_only(memberships: list[Membership], topic: Topic) -> bool:
    """Whether a client needs only the frame of each update in its queue."""
    client = memberships[0].client
    if any(_is_replaying(member, topic) for member in memberships):
        return False
    if topic.is_cached and client.waiting_count:
        return False
    if all(member.is_conflating for member in memberships):
        return False
    if client.reading(topic) is not None:
        return False
    return bool(topic.type.flags.internal) or client.connection.is_described(topic.type)
