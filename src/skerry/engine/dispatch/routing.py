"""Who receives which update: groups of types, subject patterns and views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

from skerry.codec.pieces import split
from skerry.codec.subjects import default_subject
from skerry.engine.admission.quotas import ClientLimits
from skerry.engine.admission.shared_quotas import Resource, SharedQuotas, open_part
from skerry.engine.clients import Client
from skerry.engine.delivery.filtered_subscription import FilteredSubscription
from skerry.engine.delivery.group_members import (
    Bystander,
    Denied,
    Listener,
    MemberOutput,
    Membership,
)
from skerry.engine.dispatch.cache import Entry
from skerry.engine.dispatch.client_queue import ClientQueue
from skerry.engine.dispatch.dispatcher import Dispatcher
from skerry.engine.dispatch.topics import (
    Route,
    RouteResolver,
    Topic,
    UpdateInTransit,
    UpdateListener,
)
from skerry.engine.types.scopes import is_site_message
from skerry.errors import LimitExceeded
from skerry.limits import (
    GROUP_COUNT_MAX,
    PATTERN_MEMO_CHAR_COUNT_MAX,
    ROUTE_MEMO_COUNT_MAX,
    ROUTE_MEMO_SIZE_MAX,
    TAG_MAX,
)
from skerry.protocol.patterns import (
    PatternHandle,
    PatternTree,
    check_pattern,
    check_subject,
    covers,
)

__all__ = ["WILD_CARDS", "Reach", "Routing", "knows_type"]


class Routing(RouteResolver):
    """All memberships and views of a node, and the routes that follow from them."""

    def __init__(
        self, shares: SharedQuotas | None = None, *, group_count_max: int = GROUP_COUNT_MAX
    ) -> None:
        super().__init__()
        self._shares = shares or SharedQuotas(ClientLimits())
        self._group_count_max = group_count_max
        self._address_groups: dict[str, Counter[str]] = {}
        """The groups that clients of each address are in, with the number of these clients."""
        self._dispatcher: Dispatcher | None = None
        self._groups: dict[str, dict[int, Membership]] = {}
        self._tree = PatternTree()
        self._patterns: dict[str, dict[int, tuple[Membership, PatternHandle]]] = {}
        self._filtered: dict[str, dict[tuple[int, int], FilteredSubscription]] = {}
        self._memo_size = 0
        """Cached subjects, and clients in their routes, since the cache was cleared."""
        self._partial: Counter[tuple[str, int]] = Counter()
        """The number of patterns that select some default subjects of types, by the first level of
        the pattern and the number of the types' keys."""
        self._replaying: dict[Membership, None] = {}
        """Members that are being told what is there."""
        self._carriers: dict[int, Membership] = {}
        """Clients that bring messages to other nodes, and so hear all that go there."""

    def attach(self, dispatcher: Dispatcher) -> None:
        """Say whose routes these are."""
        self._dispatcher = dispatcher

    @property
    def group_count(self) -> int:
        """Groups that have members."""
        return len(self._groups) + len(self._patterns)

    def member_count(self, group: str) -> int:
        """Members of a group, views included."""
        return (
            len(self._groups.get(group, ()))
            + len(self._patterns.get(group, ()))
            + len(self._filtered.get(group, ()))
        )

    def members(self, type_name: str) -> list[Membership]:
        """Who joined the group of a type."""
        return list(self._groups.get(type_name, {}).values())

    def find(self, client: Client, group: str) -> Membership | None:
        """The membership of a client, if it is in the group."""
        if group.startswith("/"):
            held = self._patterns.get(check_pattern(group), {}).get(client.client_id)
            return None if held is None else held[0]
        return self._groups.get(group, {}).get(client.client_id)

    def join(self, client: Client, group: str, *, is_conflating: bool) -> Membership:
        """Add a client to a group, or change what happens when it is slow.

        Raises LimitExceeded if there are too many groups or memberships; nothing is changed then.
        """
        assert self._dispatcher is not None
        known = self.find(client, group)
        if known is not None:
            known.is_conflating = is_conflating
            self._forget(known.group)
            return known
        if group.startswith("/"):
            group = check_pattern(group)
        self._count_group(client, group)
        self._give_voice(client)
        if group.startswith("/"):
            member = Membership(client, group, self._dispatcher, is_conflating=is_conflating)
            handle = self._tree.add(group, member)
            if group not in self._patterns:
                self._patterns[group] = {}
                self._count_partial(group, 1)
            self._patterns[group][client.client_id] = (member, handle)
        else:
            member = Membership(client, group, self._dispatcher, is_conflating=is_conflating)
            self._groups.setdefault(group, {})[client.client_id] = member
        client.groups[group] = None
        client.interest_count += 1
        self._forget(group)
        return member

    def leave(self, client: Client, group: str) -> None:
        """Take a client out of a group; of one that is not in it nothing is taken."""
        member = self.find(client, group)
        if member is None:
            return
        group = member.group
        if group.startswith("/"):
            _, handle = self._patterns[group].pop(client.client_id)
            self._tree.remove(handle)
            if not self._patterns[group]:
                del self._patterns[group]
                self._count_partial(group, -1)
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
        self._uncount_group(client, group)
        client.interest_count += 1
        if client.slots:
            assert client.conflated_output is not None
            client.slots.forget(
                client.conflated_output,
                lambda update: self._is_heard_by(client, update),
                is_known=any(other.startswith("/") for other in client.groups),
            )
        self._forget(group)

    def carry(self, client: Client) -> None:
        """Let a client hear all messages to the site, also of types that are not known yet."""
        assert self._dispatcher is not None
        self._give_voice(client)
        self._carriers[client.client_id] = Membership(
            client, "", self._dispatcher, is_conflating=False
        )
        self._forget_messages()

    def replay_began(self, member: Membership) -> None:
        """From now on a member is told what is there, and has to hear of all that changes it."""
        self._replaying[member] = None
        assert member.active_replay is not None
        for topic in member.active_replay.topics:
            topic.forget_routes()

    def wait(self, member: Membership, *, is_over: bool = False) -> None:
        """Until its turn comes to be told what is there, a member hears of all objects whole."""
        assert self._dispatcher is not None
        assert member.is_waiting == is_over
        member.is_waiting = not is_over
        member.client.waiting_count += -1 if is_over else 1
        # An object may come from where it was to be told of to where the client hears of it.
        for topic in self._dispatcher.all_topics():
            if topic.is_cached:
                topic.forget_routes()

    def replay_ended(self, member: Membership) -> None:
        """A member was told all, or does not want it any more."""
        replay, member.active_replay = member.active_replay, None
        self._replaying.pop(member, None)
        if replay is not None:
            for topic in replay.topics:
                topic.forget_routes()

    def add_filtered(self, subscription: FilteredSubscription) -> None:
        """Deliver updates of a type to a view; a view with the same number is replaced.

        Raises LimitExceeded if there are too many views; the replaced one is removed even then.
        """
        self.remove_filtered(subscription.client, subscription.topic.name, subscription.number)
        self._shares.take(
            subscription.client.holder,
            {Resource.VIEWS: 1, Resource.VIEW_PARTS: int(subscription.part_count)},
        )
        at = (subscription.client.client_id, subscription.number)
        self._filtered.setdefault(subscription.topic.name, {})[at] = subscription
        subscription.client.filtered_subscriptions[subscription.topic.name, subscription.number] = (
            subscription.part_count
        )
        subscription.client.interest_count += 1
        subscription.topic.forget_routes()

    def remove_filtered(self, client: Client, type_name: str, number: int) -> None:
        """Take a view away; of one that is not there nothing is taken."""
        subscriptions = self._filtered.get(type_name, {})
        subscription = subscriptions.pop((client.client_id, number), None)
        if subscription is None:
            return
        if not subscriptions:
            del self._filtered[type_name]
        subscription.close()
        self._shares.give_back(
            client.holder, {Resource.VIEWS: 1, Resource.VIEW_PARTS: int(subscription.part_count)}
        )
        del client.filtered_subscriptions[type_name, number]
        client.interest_count += 1
        client.slots.forget(subscription)
        subscription.topic.forget_routes()

    def hide(self) -> None:
        """Rights changed: what is under way to clients tells nothing that they may not see."""
        for member in self._replaying:
            if member.active_replay is not None and _is_restricted(member.client):
                member.active_replay.leave_out(partial(_is_hidden, member.client))
        for subscriptions in self._filtered.values():
            for subscription in subscriptions.values():
                if _is_restricted(subscription.client):
                    subscription.hide()

    def definition_changed(self, client: Client, topic: Topic) -> None:
        """A client has another definition of a type; subscriptions it cannot read any more end."""
        if not client.can_read(topic):
            for name, number in list(client.filtered_subscriptions):
                if name == topic.name:
                    self.remove_filtered(client, name, number)
            for member in self._replaying:
                if member.client is client and member.active_replay is not None:
                    member.active_replay.leave_out(lambda other, _: other is topic)
        topic.forget_routes()

    def leaving(self, client: Client) -> Iterator[int]:
        """Remove all memberships of a client, step by step; yields the looks of each step."""
        assert self._dispatcher is not None
        for group in list(client.groups):
            self.leave(client, group)
            is_pattern = group.startswith("/")
            yield _LOOKS_PER_LEAVE + is_pattern * len(self._dispatcher.topics) // _TOPICS_PER_LOOK
        for name, number in list(client.filtered_subscriptions):
            self.remove_filtered(client, name, number)
            yield _LOOKS_PER_LEAVE
        if self._carriers.pop(client.client_id, None) is not None:
            self._forget_messages()

    def topic_added(self, topic: Topic) -> None:
        """A topic is new: see whether parts of its subjects were asked for."""
        topic.needs_subject = self._is_partial(topic)

    def topic_redefined(self, topic: Topic) -> None:
        """The type of a topic has another definition: views follow if their client can read it."""
        for subscription in list(self._filtered.get(topic.name, {}).values()):
            if subscription.client.can_read(topic):
                subscription.topic_redefined()
            else:
                self.remove_filtered(subscription.client, topic.name, subscription.number)

    def has_filtered(self, type_name: str) -> bool:
        """Whether there are filtered subscriptions to a type."""
        return type_name in self._filtered

    def resolve(self, topic: Topic, subject: str) -> Route:
        """The route of a topic, for a subject or for all default ones; it is kept there."""
        if subject:
            _check(subject, topic)
        queues: list[ClientQueue] = []
        listeners: list[UpdateListener] = []
        replaying = [member for member in self._replaying if _tells_of(member, topic)]
        hearing: set[int] = set()
        for client_id, memberships in self._listening(topic, subject).items():
            client = memberships[0].client
            is_hidden = bool(subject) and not _may_hear(client, subject)
            if client.is_under_review:
                memberships = [m for m in memberships if not m.group or _may_join(client, m.group)]
            if not memberships or is_hidden or not client.can_read(topic):
                listeners.append(Denied(client))
                continue
            hearing.add(client_id)
            for member in replaying:
                if member.client is client and member not in memberships:
                    memberships.append(member)
            if _is_simple(memberships, topic):
                queues.append(client.queue)
            else:
                listeners.append(Listener(memberships, topic.forget_routes))
        for subscription in self._filtered.get(topic.name, {}).values():
            is_lost = subscription.client.is_under_review and not _may_join(
                subscription.client, topic.name
            )
            listeners.append(Denied(subscription.client) if is_lost else subscription)
        unaware = [member for member in replaying if member.client.client_id not in hearing]
        listeners.extend(Bystander(member) for member in unaware)
        route = Route(queues, listeners)
        if not subject:
            topic.route = route
        elif len(subject) <= PATTERN_MEMO_CHAR_COUNT_MAX:
            self._keep_route(topic, subject, route)
        return route

    def _keep_route(self, topic: Topic, subject: str, route: Route) -> None:
        """Cache the route of a subject; the cache is cleared when it takes too much."""
        assert self._dispatcher is not None
        if len(topic.routes) >= ROUTE_MEMO_COUNT_MAX:
            topic.routes.clear()
        # Routes that were invalidated since are still counted, so there are no more than that.
        self._memo_size += 1 + len(route.queues) + len(route.listeners)
        if self._memo_size > ROUTE_MEMO_SIZE_MAX:
            self._memo_size = 1 + len(route.queues) + len(route.listeners)
            for other in self._dispatcher.all_topics():
                other.routes.clear()
        topic.routes[subject] = route

    def _listening(self, topic: Topic, subject: str) -> dict[int, list[Membership]]:
        """Who hears of it, by client, with all memberships that say so."""
        found: dict[int, list[Membership]] = {}
        for member in self._groups.get(topic.name, {}).values():
            found.setdefault(member.client.client_id, []).append(member)
        if self._carriers and is_site_message(topic.type):
            for client_id, member in self._carriers.items():
                if _may_join(member.client, topic.name):
                    found.setdefault(client_id, []).append(member)
        # Taken for a subject, the pattern of all default ones is selected by those that cover it.
        for value in self._tree.match(subject or topic.pattern):
            assert isinstance(value, Membership)
            found.setdefault(value.client.client_id, []).append(value)
        if topic.name.startswith(_OUR_OWN):
            return {at: m for at, m in found.items() if m[0].client.queue.has_subjects}
        return found

    def _count_group(self, client: Client, group: str) -> None:
        """Count a membership; raises LimitExceeded if there are too many."""
        holder = client.holder
        if group not in self._groups and group not in self._patterns:
            limit = self._group_count_max
            if not holder.is_trusted:
                limit = open_part(limit)
            if self.group_count >= limit:
                raise LimitExceeded(
                    what="count of groups of all clients", value=self.group_count + 1, limit=limit
                )
        mine = self._address_groups.get(holder.address, Counter())
        limit = self._shares.limits.group_count_per_address_max
        if holder.address and group not in mine and len(mine) >= limit:
            what = f"count of groups of address {holder.address} (group_count_per_address_max)"
            raise LimitExceeded(what=what, value=len(mine) + 1, limit=limit)
        self._shares.take(holder, _membership(group))
        if holder.address:
            self._address_groups.setdefault(holder.address, Counter())[group] += 1

    def _uncount_group(self, client: Client, group: str) -> None:
        address = client.holder.address
        self._shares.give_back(client.holder, _membership(group))
        if address:
            mine = self._address_groups[address]
            mine[group] -= 1
            if not mine[group]:
                del mine[group]
            if not mine:
                del self._address_groups[address]

    def _give_voice(self, client: Client) -> None:
        """Let a client be told later what it is not told now."""
        dispatcher = self._dispatcher
        assert dispatcher is not None

        def is_heard(topic: Topic, entry: Entry) -> bool:
            return self._hears(client, topic, entry.subject, entry.payload)

        if client.conflated_output is None:
            client.conflated_output = MemberOutput(client, dispatcher, is_heard)

    def _is_heard_by(self, client: Client, update: UpdateInTransit) -> bool:
        """Whether a client is in a group that an update belongs to."""
        return self._hears(client, update.topic, update.subject, update.payload)

    def _hears(self, client: Client, topic: Topic, subject: str, payload: bytes) -> bool:
        if subject and not _may_hear(client, subject):
            return False
        subject = subject or default_subject(topic.plan, split(topic.plan, payload, 0))
        return client.client_id in self._listening(topic, subject)

    def _count_partial(self, pattern: str, change: int) -> None:
        """A pattern came to be or went: see whose default subjects it selects a part of."""
        assert self._dispatcher is not None
        reach = Reach(pattern)
        if reach.is_whole:
            return
        for count in reach.key_counts:
            self._partial[reach.first, count] += change
            if not self._partial[reach.first, count]:
                del self._partial[reach.first, count]
        for topic in self._dispatcher.all_topics():
            if reach.has(topic):
                topic.needs_subject = self._is_partial(topic)

    def _is_partial(self, topic: Topic) -> bool:
        """Whether a pattern selects a part of the default subjects of a topic."""
        key_count = len(topic.plan.keys)
        first = topic.pattern.split("/", 2)[1]
        return (first, key_count) in self._partial or ("*", key_count) in self._partial

    def _forget_messages(self) -> None:
        """A carrier came or went."""
        assert self._dispatcher is not None
        for topic in self._dispatcher.all_topics():
            if is_site_message(topic.type):
                topic.forget_routes()

    def _forget(self, group: str) -> None:
        """The routes that a change of a group concerns."""
        assert self._dispatcher is not None
        if not group.startswith("/"):
            # An outdated topic resolves its routes again in any case.
            topic = self._dispatcher.topics.get(group)
            if topic is not None:
                topic.forget_routes()
            return
        reach = Reach(group)
        for topic in self._dispatcher.all_topics():
            # Under subjects of their own, objects of any type may be meant.
            if topic.routes or reach.has(topic):
                topic.forget_routes()


class Reach:
    """Which types have default subjects that a pattern selects, and whether it selects them all.

    A default subject is the type and a level for each key, so it depends only on the first level
    of the pattern and the number of the others.
    """

    def __init__(self, pattern: str) -> None:
        self.first, *rest = pattern.split("/")[1:]
        """The type, or a wild card."""
        is_open = (rest or [self.first])[-1] == "..."
        if self.first == "...":
            self.key_counts = range(TAG_MAX + 1)
        elif is_open:
            self.key_counts = range(len(rest), TAG_MAX + 1)
        else:
            self.key_counts = range(len(rest), len(rest) + 1)
        self.is_whole = all(level in WILD_CARDS for level in rest)
        """Whether it selects all default subjects of these types."""
        self._start = None if self.first in WILD_CARDS else f"/{self.first}"

    def has(self, topic: Topic) -> bool:
        """Whether it selects default subjects of a topic, some or all."""
        if len(topic.plan.keys) not in self.key_counts:
            return False
        start = self._start
        if start is None:
            return True
        pattern = topic.pattern
        return pattern.startswith(start) and pattern[len(start) : len(start) + 1] in ("", "/")


_LOOKS_PER_LEAVE: Final = 10
_TOPICS_PER_LOOK: Final = 4
"""Looks that leaving a group takes, and topics that can be matched against a pattern in the time of
one look."""

_OUR_OWN = "Skerry"
"""How the names of types begin that only our own programs know."""


WILD_CARDS = ("*", "...", "\u2026")
"""Levels of a pattern that stand for others."""


def knows_type(client: Client, topic: Topic) -> bool:
    """Whether a client can receive objects of a type.

    Skerry's own types are not described, and not all clients know them. A client may also have a
    definition whose keys differ from the served one.
    """
    is_known = bool(client.queue.has_subjects) or not topic.name.startswith(_OUR_OWN)
    return is_known and client.can_read(topic)


def _membership(group: str) -> dict[Resource, int]:
    """The resources that one membership uses."""
    return {Resource.JOINS: 1, Resource.PATTERNS: int(group.startswith("/"))}


def _tells_of(member: Membership, topic: Topic) -> bool:
    replay = member.active_replay
    if replay is None or not replay.tells_of(topic):
        return False
    return not member.client.is_under_review or _may_join(member.client, member.group)


def _check(subject: str, topic: Topic) -> None:
    """LocalProtocolError for what is no subject.

    Default subjects have whole keys in them and may be of any length: nobody chose them.
    """
    is_default = topic.needs_subject and covers(topic.pattern, subject)
    if not is_default or any(level in WILD_CARDS for level in subject.split("/")):
        check_subject(subject)


def _may_hear(client: Client, subject: str) -> bool:
    rights = client.rights
    assert rights is not None
    return rights.allows_objects or rights.allows("subscribe", subject)


def _is_hidden(client: Client, _topic: Topic, entry: Entry) -> bool:
    return entry.subject != "" and not _may_hear(client, entry.subject)


def _is_restricted(client: Client) -> bool:
    rights = client.rights
    return rights is not None and not rights.allows_objects


def _may_join(client: Client, type_name: str) -> bool:
    rights = client.rights
    assert rights is not None
    return rights.allows_objects or rights.allows_group("subscribe", type_name)


def _is_simple(memberships: list[Membership], topic: Topic) -> bool:
    """Whether a frame on the lane is all it takes."""
    client = memberships[0].client
    if any(_tells_of(member, topic) for member in memberships):
        return False
    if topic.is_cached and client.waiting_count:
        return False
    if all(member.is_conflating for member in memberships):
        return False
    if client.reading(topic) is not None:
        return False
    return bool(topic.type.flags.internal) or client.connection.is_described(topic.type)
