"""Stores each received update and calls the callbacks of its subscribers.

The loop here runs for every object that a space receives, so this module is compiled. It processes
ordinary objects. At any other frame it stops, and the space processes that frame.
"""

from __future__ import annotations

from typing import Any

from mypy_extensions import i64

from skerry.client.core.events import Event
from skerry.client.core.received_types import CREATE, REMOVE
from skerry.client.core.type_route import Target, TypeRoute
from skerry.client.core.type_store import ReceiveContext, TypeStore
from skerry.codec.frame import FrameCutter
from skerry.codec.hot_loops import DeliveredHeader, FrameDelivery, ObjectState, RouteVersion
from skerry.codec.pieces import cut, split_whole
from skerry.codec.plans import StructPlan
from skerry.errors import CodecError
from skerry.protocol.access.header import ABSENT, Header, copy_header, read_header
from skerry.protocol.patterns import PatternTree


class UpdateIntake:
    """The routes of a space, and the delivery of received updates by them."""

    def __init__(self) -> None:
        self.routes: dict[str, TypeRoute] = {}
        self.conditions: dict[int, TypeRoute] = {}
        """Routes of filtered subscriptions, by the number that the node puts into the header."""
        self.patterns: PatternTree = PatternTree()
        self.context: ReceiveContext = ReceiveContext()
        self.broken: CodecError | None = None
        """The error of a payload that does not decode as its type."""
        self.failures: list[tuple[Target, BaseException]] = []
        self.is_sheltered: bool = False
        """Whether callbacks run on a thread of the space, which no error of a callback may end."""
        self.taker: Any = None
        """Receives all objects instead, without stores and events, if it is set: a recorder with
        the methods `take_frames` and `take`."""
        self._delivery: FrameDelivery = FrameDelivery()
        self._gate: RouteVersion = RouteVersion()
        self._pattern_count: i64 = 0
        self._is_stopped: bool = False

    @property
    def pattern_count(self) -> int:
        return int(self._pattern_count)

    @pattern_count.setter
    def pattern_count(self, value: int) -> None:
        self._pattern_count = value
        self.changed()

    @property
    def is_stopped(self) -> bool:
        """Whether the delivery has ended for good."""
        return self._is_stopped

    @is_stopped.setter
    def is_stopped(self, value: bool) -> None:
        self._is_stopped = value
        self.changed()

    def changed(self) -> None:
        """Invalidate what is cached for headers, after routes were added, removed or changed."""
        self._gate.shut()

    def take_frames(self, cutter: FrameCutter) -> bool:
        """Process frames of objects. Returns whether all complete frames are processed.

        If not, the cutter is at a frame that the space has to process, or that is broken.
        """
        if self.taker is not None:
            is_done: bool = self.taker.take_frames(cutter)
            return is_done
        delivery, context = self._delivery, self.context
        try:
            while not self._is_stopped:
                call = delivery.deliver(
                    cutter.buffer,
                    int(cutter.stop),
                    cutter.frame_bytes_max,
                    Event,
                    int(context.own_id),
                    context.now_s,
                    int(context.epoch),
                    self.failed,
                )
                if delivery.count:
                    cutter.skip(delivery.start, delivery.stop, delivery.count)
                    if self.broken is not None:
                        return False
                    if self.is_stopped:
                        return True
                if not cutter.step():
                    return True
                try:
                    if not self._take_frame(call, cutter):
                        return False
                except CodecError as error:
                    self.broken = error
                if self.broken is not None:
                    return False
            return True
        finally:
            delivery.end()

    def _take_frame(self, call: DeliveredHeader | None, cutter: FrameCutter) -> bool:
        """Process the frame that the cutter is at; false if the space has to process it.

        It may only find the callbacks for its header; the cutter is then before the frame.
        """
        delivery = self._delivery
        if call is None:
            header, size = read_header(cutter.body(), 0)
            if delivery.is_new and _may_repeat(header) and delivery.wants():
                delivery.learn(DeliveredHeader(header, delivery.parts()))
            route = self._route(header)
            if route is None or route.is_service or header.attributes < 0:
                return False
            self.deliver(route, header, cutter.body()[size:])
            return True
        known: Header = call.owner
        route = self._route(known)
        if route is None or route.is_service:
            return False
        if not call.is_open:
            self._open(call, known, route)
            cutter.back()
            return True
        header = copy_header(known)
        sent_s, second_s = delivery.times()
        header.sent_time = sent_s
        if second_s is not None:
            header.server_sent_time = second_s
        store = route.store
        if store is None or not route.is_joined or not delivery.is_checked or known.remove_obj == 1:
            self.deliver(route, header, delivery.payload())
        else:
            payload, key, present, _ = delivery.checked()
            key, event = store.keep(header, payload, key, present, self.context)
            self._deliver_stored(route, store, key, event)
        return True

    def _route(self, header: Header) -> TypeRoute | None:
        if header.subscription_id >= 0:
            return self.conditions.get(int(header.subscription_id))
        return self.routes.get(header.type_name)

    def _open(self, call: DeliveredHeader, known: Header, route: TypeRoute) -> None:
        """Cache the callbacks for objects with a header, until a route changes."""
        route.gate = self._gate
        store = route.store
        objects = None if store is None else store.objects
        call.open(self._gate, known, route.shape, self._targets(known, route), objects)

    def _targets(self, known: Header, route: TypeRoute) -> list[Target] | None:
        """The callbacks for objects with a header; None if more depends on each object."""
        if route.filters or known.remove_obj == 1:
            return None
        targets = route.targets
        if self._pattern_count != 0 and not route.is_condition:
            if known.subject:
                targets = list(targets)
                for found in self.patterns.match(known.subject):
                    assert isinstance(found, Target)
                    targets.append(found)
            elif route.has_patterns:
                return None
        if not route.is_joined and len(targets) == len(route.targets):
            # An object that no pattern selects any more is removed from the store.
            return [] if route.store is None else None
        for target in targets:
            if target.shape is not None and target.shape is not route.shape:
                return None
        return targets

    def take(self, arrived: list[tuple[Header, bytes]], start: i64) -> i64:
        """Process objects from `start` on, up to one that the space has to process; its index."""
        if self.taker is not None:
            taken: int = self.taker.take(arrived, int(start))
            return taken
        index = start
        count: i64 = len(arrived)
        while index < count and not self._is_stopped:
            header, payload = arrived[index]
            route = self._route(header)
            if route is None or route.is_service or header.attributes < 0:
                return index
            try:
                self.deliver(route, header, payload)
            except CodecError as error:
                self.broken = error
                return index
            if self.broken is not None:
                return index
            index += 1
        return index

    def deliver(self, route: TypeRoute, header: Header, payload: bytes) -> None:
        """Store one update, and call the callbacks of its subscribers."""
        store = route.store
        if not route.is_joined and not self._is_selected(route, header, payload):
            known = None if store is None else store.find(payload)
            if known is None:
                # It was sent before the node processed a leave. No removal would follow it.
                return
            # A pattern selected it before, and no pattern selects its new subject.
            header, payload = _removal(route.shape.plan, header, known)
        if store is None:
            if header.remove_obj == 1:
                # The type is cached by another program's definition. By ours its objects are
                # messages, and a message is never removed.
                return
            event = self.context.event(CREATE, header, route.shape, payload, None)
            filters = route.filters
            self.deliver_event(route, event)
            for filter_ in filters:
                filter_.changed(b"", event)
            return
        key, event = store.apply(header, payload, self.context)
        self._deliver_stored(route, store, key, event)

    def _deliver_stored(
        self, route: TypeRoute, store: TypeStore, key: bytes, event: Event[Any]
    ) -> None:
        """Deliver the event of a stored object; `key` is empty if nothing changed."""
        if not key:
            return
        if store.moved is None or self._pattern_count == 0 or route.is_condition:
            self.deliver_event(route, event)
        else:
            self._deliver_moved(route, event, store.moved)
        for filter_ in route.filters:
            filter_.changed(key, event)
        if event.operation is REMOVE and store.objects.get(key) is event.entry:
            del store.objects[key]

    def deliver_event(self, route: TypeRoute, event: Event[Any]) -> None:
        """Call the callbacks of all subscriptions to the type or to the subject."""
        # Searched before the first callback: what a callback changes counts from the next update.
        matching = None
        if (
            self._pattern_count != 0
            and not route.is_condition
            and (route.has_patterns or event.header.subject)
        ):
            matching = self.patterns.match(event.subject)
        for target in route.targets:
            self.call(target, event)
        if matching is not None:
            for found in matching:
                assert isinstance(found, Target)
                self.call(found, event)

    def _deliver_moved(self, route: TypeRoute, event: Event[Any], former: ObjectState) -> None:
        """Deliver an update that changed the subject of its object.

        A pattern that selects only the old subject receives a remove, one that selects only the
        new subject receives a create.
        """
        for target in route.targets:
            self.call(target, event)
        removal = self._removal_event(event, former)
        before, after = self.patterns.match(removal.subject), self.patterns.match(event.subject)
        for found in before:
            assert isinstance(found, Target)
            if found not in after:
                self.call(found, removal)
        for found in after:
            assert isinstance(found, Target)
            self.call(found, event if found in before else self._create_event(event))

    def _removal_event(self, event: Event[Any], former: ObjectState) -> Event[Any]:
        header, payload = _removal(event.shape.plan, event.header, former)
        entry = self.context.state(
            REMOVE, former.payload, former.present, header, former.created, former.created_from
        )
        return self.context.event(REMOVE, header, event.shape, payload, entry)

    def _create_event(self, event: Event[Any]) -> Event[Any]:
        entry = event.entry
        assert entry is not None
        header = copy_header(event.header)
        header.attributes = entry.present
        return event.with_update(CREATE, header, entry.payload)

    def call(self, target: Target, event: Event[Any]) -> None:
        """Call one callback. Its error is recorded and does not affect other callbacks."""
        if not target.is_open:
            return
        shape = target.shape
        if shape is not None and shape is not event.shape:
            event = event.seen_as(shape)
        try:
            target.callback(event)
        except BaseException as error:
            self.failed(target, event, error)

    def failed(self, target: Target, event: Event[Any], error: BaseException) -> None:
        """Record the error of a callback. On the program's own loop, one that ends it is raised."""
        if not self.is_sheltered and not isinstance(error, Exception):
            raise error
        fault: CodecError | None = event.fault
        if fault is not None and fault is error:
            self.broken = fault
            self.changed()
        else:
            self.failures.append((target, error))

    def _is_selected(self, route: TypeRoute, header: Header, payload: bytes) -> bool:
        """Whether any pattern selects the subject of an update."""
        if self._pattern_count == 0:
            return False
        if header.subject:
            return self.patterns.matches_any(header.subject)
        if not route.has_patterns:
            return False
        event = self.context.event(CREATE, header, route.shape, payload, None)
        return self.patterns.matches_any(event.subject)


def _may_repeat(header: Header) -> bool:
    """Whether later objects may have the same header.

    Headers of a cache replay count down, and those with a position count up.
    """
    return header.attributes >= 0 and header.from_cache < 0 and header.position < 0


def _removal(plan: StructPlan, header: Header, known: ObjectState) -> tuple[Header, bytes]:
    """Header and payload that remove an object from the subject that it had."""
    removal = copy_header(header)
    removal.remove_obj = 1
    removal.attributes = plan.key_mask
    removal.from_cache = ABSENT
    removal.subject = known.subject
    return removal, cut(plan, split_whole(plan, known.payload), plan.key_mask)
