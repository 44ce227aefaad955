"""What happens to each update that arrives: into the store of its type, and to who asked for it.

The loop here runs for every object that a space receives, so this module is compiled. It deals
with ordinary objects and stops at anything else, which the space looks at.

Stores are shared: a container, and all subscriptions of a type, see the same objects. What was
asked for under a condition has a store of its own.
"""

from __future__ import annotations

from typing import Any

from mypy_extensions import i64

from skerry.client.core.events import Event
from skerry.client.core.received_types import CREATE, REMOVE, UPDATE, ReceivedType
from skerry.codec.frame import FrameCutter
from skerry.codec.hot_loops import DeliveredHeader, FrameDelivery, ObjectState, RouteVersion
from skerry.codec.pieces import (
    Pieces,
    canonical_key,
    cut,
    merge,
    merge_pieces,
    normalize,
    split_whole,
)
from skerry.codec.plans import StructPlan, refuse_bytes
from skerry.errors import CodecError
from skerry.protocol.access.header import ABSENT, Header, copy_header, read_header
from skerry.protocol.patterns import PatternTree

__all__ = ["Target", "TypeRoute", "TypeStore", "UpdateIntake"]


class Target:
    """Somebody who is told of events, as objects of a class of their own."""

    def __init__(self, callback: Any, shape: ReceivedType | None) -> None:
        self.callback: Any = callback
        self.shape: ReceivedType | None = shape
        """The class that was asked for; None for who takes what comes."""
        self.is_open: bool = True


class TypeStore:
    """The current objects of a type, by canonical key."""

    def __init__(self, shape: ReceivedType) -> None:
        self.shape: ReceivedType = shape
        self.objects: dict[bytes, ObjectState] = {}
        self.moved: ObjectState | None = None
        """The object as it was, if the last transmission gave it another subject."""

    def find(self, payload: bytes) -> ObjectState | None:
        """The object that a transmission is about, if it is here."""
        if not self.objects:
            return None
        plan = self.shape.plan
        pieces = split_whole(plan, payload)
        if plan.key_mask & ~pieces.present != 0:
            return None
        return self.objects.get(canonical_key(plan, pieces))

    def apply(
        self, header: Header, payload: bytes, intake: UpdateIntake
    ) -> tuple[bytes, Event[Any]]:
        """Take a transmission: the key, and what happened; a key of no bytes when nothing did."""
        plan = self.shape.plan
        pieces = split_whole(plan, payload)
        if plan.key_mask & ~pieces.present != 0:
            refuse_bytes(plan, None, "the key is not complete", 0)
        key = canonical_key(plan, pieces)
        if header.remove_obj == 1:
            self.moved = None
            return self._remove(header, payload, pieces, key, self.objects.get(key), intake)
        if not pieces.is_canonical:
            payload = normalize(plan, payload)
            pieces = split_whole(plan, payload)
        return self.keep(header, payload, key, pieces.present, intake)

    def keep(
        self, header: Header, payload: bytes, key: bytes, present: i64, intake: UpdateIntake
    ) -> tuple[bytes, Event[Any]]:
        """The same for an object that was checked and is in exact form."""
        plan = self.shape.plan
        known = self.objects.get(key)
        self.moved = None
        if known is None:
            entry = ObjectState(
                payload,
                present,
                header.subject,
                header.sent_time,
                header.sender,
                header.sent_time,
                header.sender,
                CREATE,
                intake.now_s,
                intake.epoch,
            )
            self.objects[key] = entry
            return key, intake.event(CREATE, header, self.shape, payload, entry)
        whole, present = _merged(plan, known, present, payload, header)
        if header.from_cache >= 0 and whole == known.payload and header.subject == known.subject:
            # Told again, since we asked again: after a lost connection, or by another pattern.
            known.epoch = intake.epoch
            return b"", intake.event(UPDATE, header, self.shape, payload, known)
        entry = ObjectState(
            whole,
            present,
            header.subject,
            known.created,
            known.created_from,
            header.sent_time,
            header.sender,
            UPDATE,
            intake.now_s,
            intake.epoch,
        )
        self.objects[key] = entry
        if header.subject != known.subject:
            self.moved = known
        return key, intake.event(UPDATE, header, self.shape, payload, entry)

    def _remove(
        self,
        header: Header,
        payload: bytes,
        pieces: Pieces,
        key: bytes,
        known: ObjectState | None,
        intake: UpdateIntake,
    ) -> tuple[bytes, Event[Any]]:
        if known is None:
            return b"", intake.event(REMOVE, header, self.shape, payload, None)
        if header.subject != known.subject:
            # It goes from where we know it: that it had moved we may not have been told.
            header = copy_header(header)
            header.subject = known.subject
        plan = self.shape.plan
        whole = known.payload
        if header.attributes & ~plan.key_mask & plan.mask != 0:
            whole = merge_pieces(plan, whole, pieces, header.attributes)
        entry = ObjectState(
            whole,
            known.present,
            header.subject,
            known.created,
            known.created_from,
            header.sent_time,
            header.sender,
            REMOVE,
            intake.now_s,
            intake.epoch,
        )
        # Still found while its subscribers are told; `UpdateIntake` lets it go afterwards.
        self.objects[key] = entry
        return key, intake.event(REMOVE, header, self.shape, payload, entry)


class TypeRoute:
    """The way of one type, or of one condition on a type."""

    def __init__(self, shape: ReceivedType, is_service: bool) -> None:
        self.shape: ReceivedType = shape
        self.is_service: bool = is_service
        """Whether the space itself has to look at each of them."""
        self.is_condition: bool = False
        """Whether it is that of a condition, to which subject patterns do not apply."""
        self.store: TypeStore | None = TypeStore(shape) if shape.is_cached else None
        self.gate: RouteVersion | None = None
        """Shut to invalidate what is cached for headers of this route; None if nothing is."""
        self._has_patterns: bool = False
        self._is_joined: bool = False
        # Both are replaced, never changed: a callback may subscribe or close while we go through.
        self._targets: list[Target] = []
        self._views: list[Any] = []

    @property
    def has_patterns(self) -> bool:
        """Whether a subject pattern may select objects that have the default subject. Finding that
        subject out takes longer than all the rest."""
        return self._has_patterns

    @has_patterns.setter
    def has_patterns(self, value: bool) -> None:
        self._has_patterns = value
        self._changed()

    @property
    def is_joined(self) -> bool:
        """Whether all of it was asked for, and not only what some patterns select."""
        return self._is_joined

    @is_joined.setter
    def is_joined(self, value: bool) -> None:
        self._is_joined = value
        self._changed()

    @property
    def targets(self) -> list[Target]:
        """Who is told of it."""
        return self._targets

    @targets.setter
    def targets(self, value: list[Target]) -> None:
        self._targets = value
        self._changed()

    @property
    def views(self) -> list[Any]:
        """Conditions that are evaluated here, because the node does not."""
        return self._views

    @views.setter
    def views(self, value: list[Any]) -> None:
        self._views = value
        self._changed()

    def redefined(self) -> None:
        """The type has a further definition, with which its objects may be stored from now on."""
        if self.store is None and self.shape.is_cached:
            self.store = TypeStore(self.shape)
        self._changed()

    def _changed(self) -> None:
        if self.gate is not None:
            self.gate.shut()


class UpdateIntake:
    """All routes of a space."""

    def __init__(self) -> None:
        self.routes: dict[str, TypeRoute] = {}
        self.conditions: dict[int, TypeRoute] = {}
        """By the number of the subscription that the node puts into the header."""
        self.patterns: PatternTree = PatternTree()
        self.own_id: i64 = 0
        self.epoch: i64 = 0
        self.now_s: float = 0.0
        self.broken: CodecError | None = None
        """What the node sent that is no object of its type."""
        self.failures: list[tuple[Target, BaseException]] = []
        """Callbacks that failed."""
        self.is_sheltered: bool = False
        """Whether callbacks run on a thread of the space, which none of them may end."""
        self.taker: Any = None
        """Who takes all objects instead, without stores and events: a recorder. It has the same
        `take_frames` and `take`."""
        self._telling: FrameDelivery = FrameDelivery()
        """The known headers."""
        self._gate: RouteVersion = RouteVersion()
        self._pattern_count: i64 = 0
        self._is_stopped: bool = False

    @property
    def pattern_count(self) -> int:
        """Subject patterns that somebody asked for."""
        return int(self._pattern_count)

    @pattern_count.setter
    def pattern_count(self, value: int) -> None:
        self._pattern_count = value
        self.changed()

    @property
    def is_stopped(self) -> bool:
        """Whether nobody is to be told of anything any more."""
        return self._is_stopped

    @is_stopped.setter
    def is_stopped(self, value: bool) -> None:
        self._is_stopped = value
        self.changed()

    def changed(self) -> None:
        """Invalidate what is cached for headers, after routes were added, removed or changed."""
        self._gate.shut()

    def take_frames(self, cutter: FrameCutter) -> bool:
        """Deal with frames of objects; whether those were all.

        If not, the cutter is at one that is for the space to look at, or that is broken.
        """
        if self.taker is not None:
            is_done: bool = self.taker.take_frames(cutter)
            return is_done
        telling = self._telling
        try:
            while not self._is_stopped:
                call = telling.deliver(
                    cutter.buffer,
                    int(cutter.stop),
                    cutter.frame_bytes_max,
                    Event,
                    int(self.own_id),
                    self.now_s,
                    int(self.epoch),
                    self.failed,
                )
                if telling.count:
                    cutter.skip(telling.start, telling.stop, telling.count)
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
            telling.end()

    def _take_frame(self, call: DeliveredHeader | None, cutter: FrameCutter) -> bool:
        """Process the frame that the cutter is at; false if the space has to process it.

        It may only find the callbacks for its header; the cutter is then before the frame.
        """
        telling = self._telling
        if call is None:
            header, size = read_header(cutter.body(), 0)
            if telling.is_new and _comes_again(header) and telling.wants():
                telling.learn(DeliveredHeader(header, telling.parts()))
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
        sent_s, second_s = telling.times()
        header.sent_time = sent_s
        if second_s is not None:
            header.server_sent_time = second_s
        store = route.store
        if store is None or not route.is_joined or not telling.is_checked or known.remove_obj == 1:
            self.deliver(route, header, telling.payload())
        else:
            payload, key, present = telling.checked()
            key, event = store.keep(header, payload, key, present, self)
            self._kept(route, store, key, event)
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
        call.open(self._gate, known, route.shape, self._told(known, route), objects)

    def _told(self, known: Header, route: TypeRoute) -> list[Target] | None:
        """The callbacks for objects with a header; None if more depends on each object."""
        if route.views or known.remove_obj == 1:
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
        """Deal with objects from `start` on, up to one that is for the space to look at."""
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
        """Take one update, and tell everybody whom it concerns."""
        store = route.store
        if not route.is_joined and not self._is_selected(route, header, payload):
            known = None if store is None else store.find(payload)
            if known is None:
                # What was under way while we left. In a store it would stay for ever.
                return
            # A pattern brought it, and it went, or is now where none selects it.
            header, payload = _departure(route.shape.plan, header, known)
        if store is None:
            if header.remove_obj == 1:
                # Other programs have a definition of the type that is cached. Here its objects are
                # messages, and messages are not removed.
                return
            event = self.event(CREATE, header, route.shape, payload, None)
            self.tell(route, event)
            for view in route.views:
                view.changed(b"", event)
            return
        key, event = store.apply(header, payload, self)
        self._kept(route, store, key, event)

    def _kept(self, route: TypeRoute, store: TypeStore, key: bytes, event: Event[Any]) -> None:
        """Deliver the event of a stored object; `key` is empty if nothing changed."""
        if not key:
            return
        if store.moved is None or self._pattern_count == 0 or route.is_condition:
            self.tell(route, event)
        else:
            self._tell_moved(route, event, store.moved)
        for view in route.views:
            view.changed(key, event)
        if event.operation is REMOVE and store.objects.get(key) is event.entry:
            del store.objects[key]

    def tell(self, route: TypeRoute, event: Event[Any]) -> None:
        """Call everybody back who asked for the type or for the subject."""
        for target in route.targets:
            self.call(target, event)
        if self._pattern_count == 0 or route.is_condition:
            return
        if not route.has_patterns and not event.header.subject:
            return
        for found in self.patterns.match(event.subject):
            assert isinstance(found, Target)
            self.call(found, event)

    def _tell_moved(self, route: TypeRoute, event: Event[Any], former: ObjectState) -> None:
        """The same of an object that has another subject than before: for who asked for one of the
        two only, it comes or goes."""
        for target in route.targets:
            self.call(target, event)
        gone = self._gone(event, former)
        were, are = self.patterns.match(gone.subject), self.patterns.match(event.subject)
        for found in were:
            assert isinstance(found, Target)
            if found not in are:
                self.call(found, gone)
        for found in are:
            assert isinstance(found, Target)
            self.call(found, event if found in were else self._come(event))

    def _gone(self, event: Event[Any], former: ObjectState) -> Event[Any]:
        header, payload = _departure(event.shape.plan, event.header, former)
        entry = ObjectState(
            former.payload,
            former.present,
            former.subject,
            former.created,
            former.created_from,
            header.sent_time,
            header.sender,
            REMOVE,
            self.now_s,
            self.epoch,
        )
        return self.event(REMOVE, header, event.shape, payload, entry)

    def _come(self, event: Event[Any]) -> Event[Any]:
        entry = event.entry
        assert entry is not None
        header = copy_header(event.header)
        header.attributes = entry.present
        return event.retold(CREATE, header, entry.payload)

    def call(self, target: Target, event: Event[Any]) -> None:
        """Call one back; its failure is noted and harms nobody else."""
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
        """Note the failure of a callback, unless the program wants to end, on its own loop."""
        if not self.is_sheltered and not isinstance(error, Exception):
            raise error
        fault: CodecError | None = event.fault
        if fault is not None and fault is error:
            self.broken = fault
            self.changed()
        else:
            self.failures.append((target, error))

    def _is_selected(self, route: TypeRoute, header: Header, payload: bytes) -> bool:
        """Whether any pattern selects the subject."""
        if self._pattern_count == 0:
            return False
        if header.subject:
            return self.patterns.matches_any(header.subject)
        if not route.has_patterns:
            return False
        event = self.event(CREATE, header, route.shape, payload, None)
        return self.patterns.matches_any(event.subject)

    def event(
        self,
        operation: str,
        header: Header,
        shape: ReceivedType,
        payload: bytes,
        entry: ObjectState | None,
    ) -> Event[Any]:
        """An event that happens now."""
        return Event(operation, header, shape, payload, entry, self.own_id, self.now_s)


def _comes_again(header: Header) -> bool:
    """Whether other objects may have the same header: headers of a cache replay count down, and
    those with a position count up."""
    return header.attributes >= 0 and header.from_cache < 0 and header.position < 0


def _departure(plan: StructPlan, header: Header, known: ObjectState) -> tuple[Header, bytes]:
    """The removal of an object from where it was, in place of an update that says less."""
    gone = copy_header(header)
    gone.remove_obj = 1
    gone.attributes = plan.key_mask
    gone.from_cache = ABSENT
    gone.subject = known.subject
    return gone, cut(plan, split_whole(plan, known.payload), plan.key_mask)


def _merged(
    plan: StructPlan, known: ObjectState, present: i64, payload: bytes, header: Header
) -> tuple[bytes, i64]:
    """The object after an update, and its property set."""
    # What comes out of the node's cache is the whole object; and where an update names all that
    # there was and is, nothing of the old state is left.
    if header.from_cache >= 0:
        return payload, present
    if (known.present | present) & ~header.attributes & ~plan.key_mask == 0:
        return payload, present
    named = header.attributes & ~plan.key_mask
    whole = merge(plan, known.payload, payload, header.attributes)
    return whole, (known.present & ~named) | (present & (named | plan.key_mask))
