"""The subscriptions of a space: which groups it joins at the node, and which targets share them.

The space joins each group once, however many subscribers share it, and joins again on each new
connection. The node then replays its cache. Objects that the replay does not contain were removed
meanwhile; when the node reports the end of the replay, they are removed here too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from skerry.client.core.events import Event
from skerry.client.core.known_types import KnownTypes
from skerry.client.core.local_filters import LocalFilter, replay_header
from skerry.client.core.node_subscription import NodeSubscription
from skerry.client.core.received_types import ReceivedType
from skerry.client.core.route_table import RouteTable
from skerry.client.core.stores import Stores
from skerry.client.core.type_route import Target, TypeRoute
from skerry.client.core.update_intake import UpdateIntake
from skerry.engine.delivery.query import compile_filter
from skerry.errors import LimitExceeded
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import EXTENSION_SUBJECTS, ClientConnection
from skerry.protocol.access.handshake import ConnectionStage
from skerry.protocol.access.where.filters import uses_like
from skerry.schema.model import StructType

SUBSCRIPTION_COUNT_MAX: Final = 10_000
"""Types, patterns and conditions that one space subscribes to. All of them are sent again after
each lost connection."""

LEAVE_MARK: Final = "skerry left"
"""Marks an echo that follows a leave."""

JOIN_MARK: Final = "skerry joined"
"""Marks an echo that follows a join which a DOTS host may not answer."""

_OUR_OWN: Final = "Skerry"
"""Prefix of the names of skerry's own types."""


class Subscriptions:
    """The subscriptions of a space, by group and by the number of the filtered subscription."""

    def __init__(self, intake: UpdateIntake, types: KnownTypes) -> None:
        self.routes = RouteTable(intake, types)
        self._intake = intake
        self._stores = Stores(intake)
        self._types = types
        self._groups: dict[str, NodeSubscription] = {}
        self._conditions: dict[int, NodeSubscription] = {}
        self._next_number = 1
        self._connection: ClientConnection | None = None
        self._replaying: dict[str, deque[NodeSubscription | None]] = {}
        """Subscriptions whose cache replay is not complete, by group: the node answers joins in
        order. None stands for a join whose answer does not count any more."""
        self._leaving: deque[NodeSubscription] = deque()
        """Groups that were left, and of which the node may still send updates. Until it has
        processed the leave, its updates are stored as before but not delivered: an update in
        between is relative to the state that the node knows this client has."""
        self._doubtful: list[NodeSubscription] = []
        """Subscriptions that joined while `_leaving` was not empty."""
        self._echoed: deque[NodeSubscription] = deque()
        """Joins that are followed by an echo without an answer yet, oldest first."""

    # -- subscribing

    def of_group(self, group: str) -> NodeSubscription:
        """The subscription to a type or pattern; it is created if there is none."""
        subscription = self._groups.get(group)
        if subscription is None:
            self._check_count()
            subscription = self._groups[group] = NodeSubscription(group)
        if subscription.route is None and not subscription.is_pattern:
            shape = self._types.main_shape(group)
            if shape is not None:
                self._give_route(subscription, shape)
        return subscription

    def of_condition(self, shape: ReceivedType, filter_: Any) -> NodeSubscription:
        """A new filtered subscription to a type."""
        self._check_count()
        number = self._next_number
        self._next_number += 1
        subscription = NodeSubscription(shape.name, filter_=filter_, number=number)
        subscription.route = TypeRoute(shape, False)
        subscription.route.is_condition = True
        subscription.route.is_joined = True
        self._conditions[number] = subscription
        return subscription

    def add(
        self,
        subscription: NodeSubscription,
        callback: Callable[[Event[Any]], object],
        shape: ReceivedType | None,
        *,
        is_strict: bool,
    ) -> Target:
        """Add a subscriber. Objects that are stored here are delivered to it first."""
        target = Target(callback, shape)
        if subscription.is_pattern:
            self._stores.replay_pattern(subscription.group, target)
            if not subscription.targets:
                self.routes.count_pattern(subscription.group, 1)
            subscription.targets[target] = self.routes.add_target(subscription.group, target)
        else:
            if subscription.route is not None:
                self._stores.replay(subscription.route, target)
                subscription.route.targets = [*subscription.route.targets, target]
                subscription.route.changed()
            subscription.targets[target] = None
        subscription.strict_count += is_strict
        return target

    def remove(
        self, subscription: NodeSubscription, target: Target, now_s: float, *, is_strict: bool
    ) -> None:
        """Remove a subscriber. The node is left when the last one is removed."""
        if target not in subscription.targets:
            return
        target.is_open = False
        handle = subscription.targets.pop(target)
        if not subscription.is_used:
            subscription.last_handle = handle
        elif handle is not None:
            self.routes.remove_target(handle)
        route = subscription.route
        if route is not None:
            route.targets = [item for item in route.targets if item is not target]
            route.changed()
        subscription.strict_count -= is_strict
        self.release(subscription, now_s)

    def release(self, subscription: NodeSubscription, now_s: float) -> None:
        """Leave the group if the subscription has no user any more."""
        if subscription.is_used:
            return
        if subscription.number is not None:
            if self._conditions.pop(subscription.number, None) is None:
                return
            self._intake.conditions.pop(subscription.number, None)
            self._intake.changed()
            is_local = self._detach(subscription, now_s)
        else:
            if self._groups.get(subscription.group) is not subscription:
                return
            del self._groups[subscription.group]
            is_local = False
        waiting = self._replaying.get(subscription.group)
        if waiting and subscription in waiting:
            # The node will report the end of its replay nevertheless.
            waiting[waiting.index(subscription)] = None
        connection = self._connection
        if connection is not None and not is_local:
            connection.leave(subscription.group, now_s, subscription_id=subscription.number)
            if subscription.number is None:
                # The node answers the echo after the last update of the group.
                echo = internal_class("DotsEcho")(request=True, data=LEAVE_MARK)
                connection.send_message(echo, now_s)
                self._leaving.append(subscription)
                return
        if subscription.number is None:
            self._forget(subscription)

    # -- the connection

    def connected(self, connection: ClientConnection, now_s: float) -> None:
        self._connection = connection
        self._reset()
        for subscription in [*self._groups.values(), *self._conditions.values()]:
            subscription.is_complete = False
            subscription.refusal = ""
            self.join(subscription, now_s)

    def disconnected(self) -> None:
        """The connection is lost. Stored objects stay until the next connection."""
        self._connection = None
        self._reset()

    def _reset(self) -> None:
        self._replaying.clear()
        while self._leaving:
            self._forget(self._leaving.popleft())
        self._doubtful.clear()
        self._echoed.clear()

    def join(self, subscription: NodeSubscription, now_s: float) -> None:
        """Join at the node; without a connection, the next one joins."""
        connection = self._connection
        if connection is None:
            return
        if subscription.number is not None:
            self._join_filtered(subscription, connection, now_s)
            return
        if subscription.group.startswith(_OUR_OWN) and not connection.extensions:
            # Other hosts do not have these types and would never answer.
            subscription.is_complete = True
            return
        own = self._types.registry.get(subscription.group)
        if own is not None:
            connection.describe(own, now_s)
        subscription.is_conflated = subscription.strict_count == 0 and bool(subscription.targets)
        connection.join(subscription.group, now_s, is_conflated=subscription.is_conflated)
        if self._leaving and subscription.is_cached:
            # Updates of a group that was left may still arrive between those of the replay. So
            # the group is joined again after them, and only that second replay counts.
            self._doubtful.append(subscription)
            self._replaying.setdefault(subscription.group, deque()).append(None)
        else:
            self._expect_replay(subscription)

    def refresh(self, subscription: NodeSubscription, now_s: float) -> None:
        """Join again if a new subscriber needs every state and the last join was conflated."""
        if subscription.is_conflated and subscription.strict_count > 0:
            self.join(subscription, now_s)

    def bound_answer(self, subscription: NodeSubscription, now_s: float) -> bool:
        """Send an echo after a join that the host may not answer. Returns whether it was needed.

        DOTS hosts do not answer a join of a type that they do not know, or do not cache. When the
        echo returns first, the host has no objects to send. A skerry node answers every join.
        """
        connection = self._connection
        joined = subscription.base or subscription
        if (
            connection is None
            or connection.extensions
            or connection.stage is not ConnectionStage.CONNECTED
            or joined.is_complete
        ):
            return False
        echo = internal_class("DotsEcho")(request=True, data=JOIN_MARK)
        connection.send_message(echo, now_s)
        self._echoed.append(joined)
        return True

    @property
    def is_awaiting_echo(self) -> bool:
        """Whether an echo after a join is not answered yet."""
        return bool(self._echoed)

    def has_patterns(self) -> bool:
        return any(subscription.is_pattern for subscription in self._groups.values())

    # -- answers of the node

    def leave_echoed(self, now_s: float) -> None:
        """The node has processed a leave: no updates of that group follow."""
        if self._leaving:
            self._forget(self._leaving.popleft())
        if self._leaving:
            return
        doubtful, self._doubtful = self._doubtful, []
        for subscription in doubtful:
            if self._groups.get(subscription.group) is subscription:
                self._stores.mark_stale(*self._part(subscription))
                self.join(subscription, now_s)

    def join_echoed(self, now_s: float) -> None:
        """The host has processed a join; if it has not answered it, it never will."""
        if not self._echoed:
            return
        subscription = self._echoed.popleft()
        waiting = self._replaying.get(subscription.group, deque())
        if subscription in waiting:
            waiting.remove(subscription)
            self._complete(subscription, now_s)

    def replay_ended(self, group: str, now_s: float) -> None:
        """The cache replay of a group is complete."""
        waiting = self._replaying.get(group)
        if waiting:
            self._complete(waiting.popleft(), now_s)

    def all_replays_ended(self, now_s: float) -> None:
        """The cache replays of all groups are complete."""
        replaying, self._replaying = self._replaying, {}
        for waiting in replaying.values():
            for subscription in waiting:
                self._complete(subscription, now_s)

    def refused(self, group: str, number: int | None, why: str) -> None:
        """The node refused a subscription, and will not replay its cache."""
        subscription = self._groups.get(group) if number is None else self._conditions.get(number)
        waiting = self._replaying.get(group, deque())
        if subscription is not None:
            subscription.refusal = why
            if subscription in waiting:
                waiting.remove(subscription)

    def type_known(self, type_: StructType) -> None:
        """Use a type that the node has described, or described again."""
        self.routes.redefined(type_.name)
        subscription = self._groups.get(type_.name)
        if subscription is None and self._intake.pattern_count == 0:
            return
        shape = self._types.main_shape(type_.name)
        assert shape is not None
        if subscription is not None and subscription.route is None:
            self._give_route(subscription, shape)
        else:
            self.routes.of_type(shape)

    def _check_count(self) -> None:
        count = len(self._groups) + len(self._conditions) + 1
        if count > SUBSCRIPTION_COUNT_MAX:
            raise LimitExceeded(what="count of groups", value=count, limit=SUBSCRIPTION_COUNT_MAX)

    def _give_route(self, subscription: NodeSubscription, shape: ReceivedType) -> None:
        route = self.routes.of_type(shape)
        route.is_joined = True
        subscription.route = route
        # Subscribers by name, from before the type was known.
        route.targets = [*route.targets, *subscription.targets]
        route.changed()

    def _join_filtered(
        self, subscription: NodeSubscription, connection: ClientConnection, now_s: float
    ) -> None:
        assert subscription.route is not None
        assert subscription.number is not None
        type_ = self._types.by_name[subscription.group]
        assert isinstance(type_, StructType)
        needs_ours = uses_like(subscription.filter)
        if connection.has_filters and (
            not needs_ours or connection.extensions & EXTENSION_SUBJECTS
        ):
            self._detach(subscription, now_s)
            self._intake.conditions[subscription.number] = subscription.route
            self._intake.changed()
            connection.describe(type_, now_s)
            subscription.is_conflated = subscription.strict_count == 0 and bool(
                subscription.targets
            )
            connection.join(
                subscription.group,
                now_s,
                subscription_id=subscription.number,
                filter_=subscription.filter,
                is_conflated=subscription.is_conflated,
            )
            self._expect_replay(subscription)
        elif subscription.base is None:
            self._intake.conditions.pop(subscription.number, None)
            self._intake.changed()
            self._evaluate_here(subscription, type_, now_s)

    def _evaluate_here(
        self, subscription: NodeSubscription, type_: StructType, now_s: float
    ) -> None:
        """Subscribe to the whole type, and evaluate the filter in the client."""
        assert subscription.route is not None
        is_new = subscription.group not in self._groups
        base = subscription.base = self.of_group(subscription.group)
        base.holder_count += 1
        assert base.route is not None
        query = compile_filter(subscription.filter, type_)
        filter_ = subscription.local_filter = LocalFilter(query, subscription.route, self._intake)
        if subscription.route.store is not None:
            # Objects that a former node with filters sent; the local filter delivers them again.
            subscription.route.store.objects.clear()
        if base.route.store is not None:
            objects = list(base.route.store.objects.items())
            for index, (key, entry) in enumerate(objects):
                header = replay_header(subscription.group, entry, len(objects) - 1 - index)
                filter_.offer(key, entry, header)
        base.route.filters = [*base.route.filters, filter_]
        base.route.changed()
        subscription.is_complete = base.is_complete
        if is_new:
            self.join(base, now_s)

    def _detach(self, subscription: NodeSubscription, now_s: float) -> bool:
        """End the evaluation of a filter in the client. Returns whether there was one."""
        base, subscription.base = subscription.base, None
        if base is None:
            return False
        assert base.route is not None
        ended, subscription.local_filter = subscription.local_filter, None
        base.route.filters = [filter_ for filter_ in base.route.filters if filter_ is not ended]
        base.route.changed()
        base.holder_count -= 1
        self.release(base, now_s)
        return True

    def _expect_replay(self, subscription: NodeSubscription) -> None:
        if subscription.is_cached:
            self._replaying.setdefault(subscription.group, deque()).append(subscription)
        else:
            subscription.is_complete = True

    def _complete(self, subscription: NodeSubscription | None, now_s: float) -> None:
        if subscription is None:
            return
        subscription.is_complete = True
        for other in self._conditions.values():
            if other.base is subscription:
                other.is_complete = True
        self._stores.drop_stale(*self._part(subscription), now_s)

    def _forget(self, subscription: NodeSubscription) -> None:
        """Drop the objects of a group that was left; it has no subscribers to notify."""
        if subscription.is_pattern:
            handle, subscription.last_handle = subscription.last_handle, None
            if handle is not None:
                self.routes.remove_target(handle)
                self.routes.count_pattern(subscription.group, -1)
        elif subscription.route is not None:
            # Until the node has processed a leave, it sends updates of the group.
            group = subscription.group
            subscription.route.is_joined = group in self._groups or any(
                other.group == group for other in self._leaving
            )
            subscription.route.changed()
        self._stores.drop_unselected(self._part(subscription)[0])

    def _part(self, subscription: NodeSubscription) -> tuple[list[TypeRoute], str | None]:
        """The routes with objects of a subscription, and the pattern that selects among them."""
        if subscription.is_pattern:
            return list(self._intake.routes.values()), subscription.group
        return [] if subscription.route is None else [subscription.route], None
