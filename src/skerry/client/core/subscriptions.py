"""What a space wants to hear of: types, subject patterns and conditions, and who asked for them.

Each of them is asked of the node once, whoever shares it here, and again on each new connection.
Then the node tells what there is now. What it does not tell has gone meanwhile, and is removed
here when the node says that it has told all.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, Final

from skerry.client.core.events import Event, ReceivedType
from skerry.client.core.known_types import KnownTypes
from skerry.client.core.local_filters import LocalFilter, told_again
from skerry.client.core.stores import Stores, is_protocol, may_select
from skerry.client.core.update_intake import Target, TypeRoute, UpdateIntake
from skerry.engine.delivery.query import compile_filter
from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.limits import SUBSCRIPTION_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import EXTENSION_SUBJECTS, ClientConnection
from skerry.protocol.access.connection import HANDSHAKE, ConnectionStage
from skerry.protocol.access.where.filters import uses_like
from skerry.protocol.patterns import PatternHandle
from skerry.schema.model import StructType

__all__ = [
    "DIRECT",
    "JOIN_MARK",
    "LEAVE_MARK",
    "SERVICES",
    "SubscribedType",
    "SubscribedTypes",
    "refuse_condition",
    "refuse_container",
]

DIRECT = frozenset({"SkerryClaimed", "SkerryRequest", "SkerryResponse"})
"""Types that the node sends to one client because of what that did, and never to a group."""

SERVICES = DIRECT | {
    "DotsCacheInfo",
    "DotsEcho",
    "EnumDescriptorData",
    "SkerryRefusal",
    "StructDescriptorData",
}
"""Types that the space itself looks at."""


LEAVE_MARK: Final = "skerry left"
"""In an echo that follows a leave."""

JOIN_MARK: Final = "skerry joined"
"""Marks an echo that follows a join which a DOTS host may not answer."""

_OUR_OWN: Final = "Skerry"
"""Prefix of the names of skerry's own types."""


class SubscribedType:
    """One thing that the node is asked for."""

    def __init__(self, group: str, *, filter_: Any = None, number: int | None = None) -> None:
        self.group = group
        """A type or a subject pattern."""
        self.filter = filter_
        self.number = number
        """Of a condition, by which the node names it."""
        self.route: TypeRoute | None = None
        """None for a pattern, and for a type that is not known yet."""
        self.view: LocalFilter | None = None
        """Of a condition that is evaluated here."""
        self.base: SubscribedType | None = None
        """Of such a condition: all objects of the type."""
        self.targets: dict[Target, PatternHandle | None] = {}
        self.last_handle: PatternHandle | None = None
        """Of a pattern that is being left: it selects until the node has heard of that."""
        self.holder_count = 0
        """Containers, views and the space itself, for whom it stays without subscribers."""
        self.strict_count = 0
        """Those who must not miss a state of an object."""
        self.is_complete = False
        """Whether all that was there when we asked has arrived."""
        self.refusal = ""
        """Why the node does not tell of it, if it does not."""
        self.is_conflated = False
        """As it was last asked for."""

    @property
    def is_pattern(self) -> bool:
        """Whether it is a subject pattern."""
        return self.group.startswith("/")

    @property
    def is_used(self) -> bool:
        """Whether anybody still wants it."""
        return bool(self.targets) or self.holder_count > 0

    @property
    def is_cached(self) -> bool:
        """Whether the node says when it has told what there is."""
        return self.route is None or self.route.store is not None


class SubscribedTypes:
    """All of them."""

    def __init__(self, intake: UpdateIntake, types: KnownTypes) -> None:
        self._intake = intake
        self._stores = Stores(intake)
        self._types = types
        self._groups: dict[str, SubscribedType] = {}
        self._conditions: dict[int, SubscribedType] = {}
        self._next_number = 1
        self._connection: ClientConnection | None = None
        self._asked: dict[str, deque[SubscribedType | None]] = {}
        """By group, those whose objects are on their way: the node answers in order. None stands
        for one whose answer does not count any more."""
        self._selected_by: Counter[str] = Counter()
        """How many patterns may select objects of each type that has a route."""
        self._leaving: deque[SubscribedType] = deque()
        """Groups that we left, and of which the node may still tell. Until it has heard that, what
        it tells is taken as before, and nobody is told: it counts on what we know."""
        self._doubtful: list[SubscribedType] = []
        """What was asked for before these had arrived."""
        self._echoed: deque[SubscribedType] = deque()
        """Joins that are followed by an echo without an answer yet, oldest first."""

    # -- asking

    def of_group(self, group: str) -> SubscribedType:
        """The interest in a type or pattern; it is new if nobody had it."""
        interest = self._groups.get(group)
        if interest is None:
            self._check_count()
            interest = self._groups[group] = SubscribedType(group)
        if interest.route is None and not interest.is_pattern:
            shape = self._types.main_shape(group)
            if shape is not None:
                self._give_route(interest, shape)
        return interest

    def of_condition(self, shape: ReceivedType, filter_: Any) -> SubscribedType:
        """A new interest in those objects of a type that a filter selects."""
        self._check_count()
        number = self._next_number
        self._next_number += 1
        interest = SubscribedType(shape.name, filter_=filter_, number=number)
        interest.route = TypeRoute(shape, False)
        interest.route.is_condition = True
        interest.route.is_joined = True
        self._conditions[number] = interest
        return interest

    def add(
        self,
        interest: SubscribedType,
        callback: Callable[[Event[Any]], object],
        shape: ReceivedType | None,
        *,
        is_strict: bool,
    ) -> Target:
        """One more subscriber, who first hears of what is here already."""
        target = Target(callback, shape)
        if interest.is_pattern:
            self._stores.replay_pattern(interest.group, target)
            interest.targets[target] = self._intake.patterns.add(interest.group, target)
            self._pattern_came(interest)
        else:
            if interest.route is not None:
                self._stores.replay(interest.route, target)
                interest.route.targets = [*interest.route.targets, target]
            interest.targets[target] = None
        interest.strict_count += is_strict
        return target

    def remove(
        self, interest: SubscribedType, target: Target, now_s: float, *, is_strict: bool
    ) -> None:
        """One subscriber less; without any the node is asked for no more."""
        if target not in interest.targets:
            return
        target.is_open = False
        handle = interest.targets.pop(target)
        if interest.is_used:
            self._unselect(handle)
        else:
            interest.last_handle = handle
        if interest.route is not None:
            interest.route.targets = [item for item in interest.route.targets if item is not target]
        interest.strict_count -= is_strict
        self.release(interest, now_s)

    def release(self, interest: SubscribedType, now_s: float) -> None:
        """Ask for no more of it if nobody wants it."""
        if interest.is_used:
            return
        if interest.number is not None:
            if self._conditions.pop(interest.number, None) is None:
                return
            self._intake.conditions.pop(interest.number, None)
            self._intake.changed()
            is_here = self._detach(interest, now_s)
        else:
            if self._groups.get(interest.group) is not interest:
                return
            del self._groups[interest.group]
            is_here = False
        self._forget_asked(interest)
        connection = self._connection
        if connection is not None and not is_here:
            connection.leave(interest.group, now_s, subscription_id=interest.number)
            if interest.number is None:
                # It comes back behind the last update of what we left.
                echo = internal_class("DotsEcho")(request=True, data=LEAVE_MARK)
                connection.send_message(echo, now_s)
                self._leaving.append(interest)
                return
        if interest.number is None:
            self._forget(interest)

    # -- the connection

    def connected(self, connection: ClientConnection, now_s: float) -> None:
        """Ask a node for everything."""
        self._connection = connection
        self._begin_anew()
        for interest in [*self._groups.values(), *self._conditions.values()]:
            interest.is_complete = False
            interest.refusal = ""
            self.ask(interest, now_s)

    def disconnected(self) -> None:
        """Nothing is asked for any more; what is here stays until we are back."""
        self._connection = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._asked.clear()
        while self._leaving:
            self._forget(self._leaving.popleft())
        self._doubtful.clear()
        self._echoed.clear()

    def left(self, now_s: float) -> None:
        """All that the node had to say of a group that we left has arrived."""
        if self._leaving:
            self._forget(self._leaving.popleft())
        if self._leaving:
            return
        doubtful, self._doubtful = self._doubtful, []
        for interest in doubtful:
            if self._groups.get(interest.group) is interest:
                self._stores.doubt(*self._part(interest))
                self.ask(interest, now_s)

    def ask(self, interest: SubscribedType, now_s: float) -> None:
        """Ask the node, if there is one; else it is asked when there is."""
        connection = self._connection
        if connection is None:
            return
        if interest.number is not None:
            self._ask_condition(interest, connection, now_s)
            return
        if interest.group.startswith(_OUR_OWN) and not connection.extensions:
            # Other hosts do not have these types and would never answer.
            interest.is_complete = True
            return
        own = self._types.registry.get(interest.group)
        if own is not None:
            connection.describe(own, now_s)
        interest.is_conflated = interest.strict_count == 0 and bool(interest.targets)
        connection.join(interest.group, now_s, is_conflated=interest.is_conflated)
        if self._leaving and interest.is_cached:
            # What comes now is mixed up with what we left. It is asked for again behind that, and
            # the answer to this question is not the one that counts.
            self._doubtful.append(interest)
            self._asked.setdefault(interest.group, deque()).append(None)
        else:
            self._note_asked(interest)

    @property
    def is_owed(self) -> bool:
        """Whether an echo is not answered yet."""
        return bool(self._echoed)

    def bound_answer(self, interest: SubscribedType, now_s: float) -> bool:
        """Send an echo after a join that the host may not answer; whether that was needed.

        DOTS hosts do not answer a join of a type that they do not know, or do not cache. When the
        echo returns first, the host has no objects to send. A skerry node answers every join.
        """
        connection = self._connection
        asked = interest.base or interest
        if (
            connection is None
            or connection.extensions
            or connection.stage is not ConnectionStage.CONNECTED
            or asked.is_complete
        ):
            return False
        echo = internal_class("DotsEcho")(request=True, data=JOIN_MARK)
        connection.send_message(echo, now_s)
        self._echoed.append(asked)
        return True

    def echoed(self, now_s: float) -> None:
        """The host has processed a join; if it has not answered it, it never will."""
        if not self._echoed:
            return
        interest = self._echoed.popleft()
        waiting = self._asked.get(interest.group, deque())
        if interest in waiting:
            waiting.remove(interest)
            self._complete(interest, now_s)

    def refresh(self, interest: SubscribedType, now_s: float) -> None:
        """Ask again where somebody came who wants more than was asked for."""
        if interest.is_conflated and interest.strict_count > 0:
            self.ask(interest, now_s)

    def has_patterns(self) -> bool:
        """Whether anything is asked for by subject."""
        return any(interest.is_pattern for interest in self._groups.values())

    # -- what the node tells

    def told_all(self, group: str, now_s: float) -> None:
        """The node has told what there is of a group."""
        waiting = self._asked.get(group)
        if waiting:
            self._complete(waiting.popleft(), now_s)

    def refused(self, group: str, number: int | None, why: str) -> None:
        """The node does not tell of a group, or of a condition, and will give no answer."""
        interest = self._groups.get(group) if number is None else self._conditions.get(number)
        waiting = self._asked.get(group, deque())
        if interest is not None:
            interest.refusal = why
            if interest in waiting:
                waiting.remove(interest)

    def told_everything(self, now_s: float) -> None:
        """The node has told all that was asked for."""
        asked, self._asked = self._asked, {}
        for waiting in asked.values():
            for interest in waiting:
                self._complete(interest, now_s)

    def type_known(self, type_: StructType) -> None:
        """A type is known now, or has a further definition."""
        for route in (*self._intake.routes.values(), *self._intake.conditions.values()):
            if route.shape.name == type_.name:
                route.redefined()
        interest = self._groups.get(type_.name)
        if interest is None and self._intake.pattern_count == 0:
            return
        shape = self._types.main_shape(type_.name)
        assert shape is not None
        if interest is not None and interest.route is None:
            self._give_route(interest, shape)
        else:
            self._route(shape)

    def narrowed(self, name: str) -> None:
        """Examine each object of a type, since it may have values that the program cannot read."""
        route = self._intake.routes.get(name)
        if route is not None:
            route.is_service = True
            route.redefined()

    def route_of(self, name: str) -> TypeRoute | None:
        """The way of a type, which is made if a pattern may select its objects."""
        route = self._intake.routes.get(name)
        if route is None and self._intake.pattern_count > 0:
            shape = self._types.main_shape(name)
            if shape is not None and not is_protocol(shape):
                route = self._route(shape)
        return route

    # -- inside

    def _check_count(self) -> None:
        count = len(self._groups) + len(self._conditions) + 1
        if count > SUBSCRIPTION_COUNT_MAX:
            raise LimitExceeded(what="count of groups", value=count, limit=SUBSCRIPTION_COUNT_MAX)

    def _route(self, shape: ReceivedType) -> TypeRoute:
        route = self._intake.routes.get(shape.name)
        if route is None:
            # A pattern may select any type, also those by which the connection itself is made.
            is_service = shape.name in SERVICES or shape.name in HANDSHAKE
            route = self._intake.routes[shape.name] = TypeRoute(shape, is_service)
            self._intake.changed()
            self._selected_by[shape.name] = sum(
                may_select(interest.group, shape)
                for interest in (*self._groups.values(), *self._leaving)
                if interest.is_pattern and (interest.targets or interest.last_handle is not None)
            )
            route.has_patterns = self._selected_by[shape.name] > 0
            if self._intake.pattern_count > 0 and self._types.is_narrow(shape.name):
                self.narrowed(shape.name)
        return route

    def _pattern_came(self, interest: SubscribedType) -> None:
        """A pattern has a subscriber. It may select objects of any type."""
        is_first = self._intake.pattern_count == 0
        self._intake.pattern_count = len(self._intake.patterns)
        if len(interest.targets) == 1:
            self._count_selected(interest.group, 1)
        if is_first:
            for name in list(self._types.by_name):
                self.route_of(name)
                if self._types.is_narrow(name):
                    # For a pattern the node need not know the program's definition.
                    self.narrowed(name)

    def _unselect(self, handle: PatternHandle | None) -> None:
        """A pattern has a subscriber less."""
        if handle is not None:
            self._intake.patterns.remove(handle)
            self._intake.pattern_count = len(self._intake.patterns)

    def _count_selected(self, pattern: str, change: int) -> None:
        for route in self._intake.routes.values():
            if may_select(pattern, route.shape):
                self._selected_by[route.shape.name] += change
                route.has_patterns = self._selected_by[route.shape.name] > 0

    def _give_route(self, interest: SubscribedType, shape: ReceivedType) -> None:
        route = self._route(shape)
        route.is_joined = True
        interest.route = route
        # Those who asked by name, before there was a type.
        route.targets = [*route.targets, *interest.targets]

    def _ask_condition(
        self, interest: SubscribedType, connection: ClientConnection, now_s: float
    ) -> None:
        assert interest.route is not None
        assert interest.number is not None
        type_ = self._types.by_name[interest.group]
        assert isinstance(type_, StructType)
        needs_ours = uses_like(interest.filter)
        if connection.has_filters and (
            not needs_ours or connection.extensions & EXTENSION_SUBJECTS
        ):
            self._detach(interest, now_s)
            self._intake.conditions[interest.number] = interest.route
            self._intake.changed()
            connection.describe(type_, now_s)
            interest.is_conflated = interest.strict_count == 0 and bool(interest.targets)
            connection.join(
                interest.group,
                now_s,
                subscription_id=interest.number,
                filter_=interest.filter,
                is_conflated=interest.is_conflated,
            )
            self._note_asked(interest)
        elif interest.base is None:
            self._intake.conditions.pop(interest.number, None)
            self._intake.changed()
            self._evaluate_here(interest, type_, now_s)

    def _evaluate_here(self, interest: SubscribedType, type_: StructType, now_s: float) -> None:
        assert interest.route is not None
        is_new = interest.group not in self._groups
        base = interest.base = self.of_group(interest.group)
        base.holder_count += 1
        assert base.route is not None
        query = compile_filter(interest.filter, type_)
        view = interest.view = LocalFilter(query, interest.route, self._intake)
        if interest.route.store is not None:
            # What is still there from a node that had filters is told anew by the view.
            interest.route.store.objects.clear()
        if base.route.store is not None:
            objects = list(base.route.store.objects.items())
            for index, (key, entry) in enumerate(objects):
                header = told_again(interest.group, entry, len(objects) - 1 - index)
                view.offer(key, entry, header)
        base.route.views = [*base.route.views, view]
        interest.is_complete = base.is_complete
        if is_new:
            self.ask(base, now_s)

    def _detach(self, interest: SubscribedType, now_s: float) -> bool:
        """End the evaluation here; whether there was one."""
        base, interest.base = interest.base, None
        if base is None:
            return False
        assert base.route is not None
        base.route.views = [view for view in base.route.views if view is not interest.view]
        interest.view = None
        base.holder_count -= 1
        self.release(base, now_s)
        return True

    def _note_asked(self, interest: SubscribedType) -> None:
        if interest.is_cached:
            self._asked.setdefault(interest.group, deque()).append(interest)
        else:
            interest.is_complete = True

    def _forget_asked(self, interest: SubscribedType) -> None:
        """Its place in the row of answers stays, as the answer will come all the same."""
        waiting = self._asked.get(interest.group)
        if waiting and interest in waiting:
            waiting[waiting.index(interest)] = None

    def _complete(self, interest: SubscribedType | None, now_s: float) -> None:
        if interest is None:
            return
        interest.is_complete = True
        for other in self._conditions.values():
            if other.base is interest:
                other.is_complete = True
        self._stores.drop_stale(*self._part(interest), now_s)

    def _forget(self, interest: SubscribedType) -> None:
        """Forget objects of which we will hear no more, without a word: nobody listens."""
        if interest.is_pattern:
            handle, interest.last_handle = interest.last_handle, None
            if handle is not None:
                self._unselect(handle)
                self._count_selected(interest.group, -1)
        elif interest.route is not None:
            interest.route.is_joined = self._is_told_of(interest.group)
        self._stores.drop_unselected(self._part(interest)[0])

    def _part(self, interest: SubscribedType) -> tuple[list[TypeRoute], str | None]:
        """The routes whose objects are meant, and the pattern that selects some of them."""
        if interest.is_pattern:
            return list(self._intake.routes.values()), interest.group
        return [] if interest.route is None else [interest.route], None

    def _is_told_of(self, group: str) -> bool:
        """Whether the node tells of a group: it was asked to, or was not yet told to stop."""
        return group in self._groups or any(other.group == group for other in self._leaving)


def refuse_condition(what: str) -> LocalProtocolError:
    """A condition on something that is no type."""
    return _no_type("a condition", what)


def refuse_container(what: str) -> LocalProtocolError:
    """A container of something that is no type."""
    return _no_type("a container", what)


def _no_type(who: str, what: str) -> LocalProtocolError:
    error = LocalProtocolError(f"{who} needs a type, and {what:.80} is none that is known here")
    error.hint = "name a class, or ask the node for its types first with `request_types`"
    return error
