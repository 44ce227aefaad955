"""What happens to each update that arrives: into the store of its type, and to who asked for it.

The loop here runs for every object that a space receives, so this module is compiled. It deals
with ordinary objects and stops at anything else, which the space looks at.

Stores are shared: a container, and all subscriptions of a type, see the same objects. What was
asked for under a condition has a store of its own.
"""

from __future__ import annotations

from typing import Any

from mypy_extensions import i64

from skerry.client.events import CREATE, REMOVE, UPDATE, Entry, Event, Shape
from skerry.codec.frame import FrameCutter
from skerry.codec.pieces import Pieces, canonical_key, merge_pieces, normalize, split_whole
from skerry.codec.plans import StructPlan, refuse_bytes
from skerry.errors import CodecError
from skerry.protocol.access.header import Header, read_header
from skerry.protocol.access.repeats import Repeat
from skerry.protocol.patterns import PatternTree

__all__ = ["Intake", "Route", "Store", "Target"]


class Target:
    """Somebody who is told of events, as objects of a class of their own."""

    def __init__(self, callback: Any, shape: Shape | None) -> None:
        self.callback: Any = callback
        self.shape: Shape | None = shape
        """The class that was asked for; None for who takes what comes."""
        self.is_open: bool = True


class Store:
    """The current objects of a type, by canonical key."""

    def __init__(self, shape: Shape) -> None:
        self.shape: Shape = shape
        self.objects: dict[bytes, Entry] = {}

    def apply(self, header: Header, payload: bytes, intake: Intake) -> tuple[bytes, Event[Any]]:
        """Take a transmission: the key, and what happened; a key of no bytes when nothing did."""
        plan = self.shape.plan
        pieces = split_whole(plan, payload)
        present: i64 = pieces.present
        if plan.key_mask & ~present != 0:
            refuse_bytes(plan, None, "the key is not complete", 0)
        key = canonical_key(plan, pieces)
        known = self.objects.get(key)
        if header.remove_obj == 1:
            return self._remove(header, payload, pieces, key, known, intake)
        if not pieces.is_canonical:
            payload = normalize(plan, payload)
            pieces = split_whole(plan, payload)
            present = pieces.present
        if known is None:
            entry = Entry(
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
        whole, present = _merged(plan, known, pieces, payload, header)
        if header.from_cache >= 0 and whole == known.payload and header.subject == known.subject:
            # Told again, since we asked again: after a lost connection, or by another pattern.
            known.epoch = intake.epoch
            return b"", intake.event(UPDATE, header, self.shape, payload, known)
        entry = Entry(
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
        return key, intake.event(UPDATE, header, self.shape, payload, entry)

    def _remove(
        self,
        header: Header,
        payload: bytes,
        pieces: Pieces,
        key: bytes,
        known: Entry | None,
        intake: Intake,
    ) -> tuple[bytes, Event[Any]]:
        if known is None:
            return b"", intake.event(REMOVE, header, self.shape, payload, None)
        plan = self.shape.plan
        whole = known.payload
        if header.attributes & ~plan.key_mask & plan.mask != 0:
            whole = merge_pieces(plan, whole, pieces, header.attributes)
        entry = Entry(
            whole,
            known.present,
            header.subject or known.subject,
            known.created,
            known.created_from,
            header.sent_time,
            header.sender,
            REMOVE,
            intake.now_s,
            intake.epoch,
        )
        # Still found while its subscribers are told; `Intake` lets it go afterwards.
        self.objects[key] = entry
        return key, intake.event(REMOVE, header, self.shape, payload, entry)


class Route:
    """The way of one type, or of one condition on a type."""

    def __init__(self, shape: Shape, is_service: bool) -> None:
        self.shape: Shape = shape
        self.is_service: bool = is_service
        """Whether the space itself has to look at each of them."""
        self.has_patterns: bool = False
        """Whether a subject pattern may select objects that have the default subject. Finding that
        subject out takes longer than all the rest."""
        self.is_condition: bool = False
        """Whether it is that of a condition, to which subject patterns do not apply."""
        self.is_joined: bool = False
        """Whether all of it was asked for, and not only what some patterns select."""
        self.store: Store | None = Store(shape) if shape.is_cached else None
        # Both are replaced, never changed: a callback may subscribe or close while we go through.
        self.targets: list[Target] = []
        self.views: list[Any] = []
        """Conditions that are evaluated here, because the node does not."""


class Intake:
    """All routes of a space."""

    def __init__(self) -> None:
        self.routes: dict[str, Route] = {}
        self.conditions: dict[int, Route] = {}
        """By the number of the subscription that the node puts into the header."""
        self.patterns: PatternTree = PatternTree()
        self.pattern_count: i64 = 0
        self.own_id: i64 = 0
        self.epoch: i64 = 0
        self.now_s: float = 0.0
        self.is_stopped: bool = False
        self.broken: CodecError | None = None
        """What the node sent that is no object of its type."""
        self.failures: list[tuple[Target, BaseException]] = []
        """Callbacks that failed."""
        self.is_sheltered: bool = False
        """Whether callbacks run on a thread of the space, which none of them may end."""
        self._repeat: Repeat | None = None
        """The last header, if the one before it was of the same type."""
        self._last_name: str = ""

    def take_frames(self, cutter: FrameCutter) -> bool:
        """Deal with frames of objects; whether those were all.

        If not, the cutter is at one that is for the space to look at, or that is broken.
        """
        while not self.is_stopped and cutter.step():
            repeat = self._repeat
            start = cutter.start
            if repeat is not None and repeat.fits(cutter.buffer, start, cutter.stop):
                known = repeat.header
                route = self._route(known)
                if route is None or route.is_service:
                    return False
                payload = cutter.buffer[start + repeat.size : cutter.stop]
                try:
                    if not self._is_told(route, repeat, payload, cutter):
                        self.deliver(route, repeat.header_of(cutter.buffer, start), payload)
                except CodecError as error:
                    self.broken = error
            else:
                body = cutter.body()
                try:
                    header, size = read_header(body, 0)
                    self._note(body, size, header)
                    route = self._route(header)
                    if route is None or route.is_service or header.attributes < 0:
                        return False
                    self.deliver(route, header, body[size:])
                except CodecError as error:
                    self.broken = error
            if self.broken is not None:
                return False
        return True

    def _route(self, header: Header) -> Route | None:
        if header.subscription_id >= 0:
            return self.conditions.get(int(header.subscription_id))
        return self.routes.get(header.type_name)

    def _note(self, body: bytes, size: int, header: Header) -> None:
        """Remember a header that may come again; of types that take turns it would not pay."""
        if header.type_name != self._last_name:
            self._last_name = header.type_name
            return
        repeat = Repeat(body, size, header)
        if repeat.is_usable and header.attributes >= 0:
            self._repeat = repeat

    def _is_told(self, route: Route, repeat: Repeat, payload: bytes, cutter: FrameCutter) -> bool:
        """Tell a message, whose header came before, to everybody; false if it takes more."""
        known = repeat.header
        if route.store is not None or route.views:
            return False
        found: list[object] | None = None
        if self.pattern_count != 0 and not route.is_condition:
            if known.subject:
                found = self.patterns.match(known.subject)
            elif route.has_patterns:
                return False
        if not route.is_joined and not found:
            return True
        event = self.event(CREATE, known, route.shape, payload, None)
        event.set_times(
            repeat.sent_time(cutter.buffer, cutter.start),
            repeat.server_sent_time(cutter.buffer, cutter.start),
        )
        for target in route.targets:
            self.call(target, event)
        if found is not None:
            for value in found:
                assert isinstance(value, Target)
                self.call(value, event)
        return True

    def take(self, arrived: list[tuple[Header, bytes]], start: i64) -> i64:
        """Deal with objects from `start` on, up to one that is for the space to look at."""
        index = start
        count: i64 = len(arrived)
        while index < count and not self.is_stopped:
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

    def deliver(self, route: Route, header: Header, payload: bytes) -> None:
        """Take one update, and tell everybody whom it concerns."""
        store = route.store
        if not route.is_joined and not self._is_selected(route, header, payload):
            # What was under way while we left. In a store it would stay for ever.
            return
        if store is None:
            event = self.event(CREATE, header, route.shape, payload, None)
            self.tell(route, event)
            for view in route.views:
                view.changed(b"", event)
            return
        key, event = store.apply(header, payload, self)
        if not key:
            return
        self.tell(route, event)
        for view in route.views:
            view.changed(key, event)
        if event.operation is REMOVE and store.objects.get(key) is event.entry:
            del store.objects[key]

    def tell(self, route: Route, event: Event[Any]) -> None:
        """Call everybody back who asked for the type or for the subject."""
        for target in route.targets:
            self.call(target, event)
        if self.pattern_count == 0 or route.is_condition:
            return
        if not route.has_patterns and not event.header.subject:
            return
        for found in self.patterns.match(event.subject):
            assert isinstance(found, Target)
            self.call(found, event)

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
            if not self.is_sheltered and not isinstance(error, Exception):
                raise  # the program wants to end, and this is its own loop
            fault = event.fault
            if fault is not None and fault is error:
                self.broken = fault
            else:
                self.failures.append((target, error))

    def _is_selected(self, route: Route, header: Header, payload: bytes) -> bool:
        """Whether any pattern selects the subject."""
        if self.pattern_count == 0:
            return False
        if header.subject:
            return self.patterns.matches_any(header.subject)
        if not route.has_patterns:
            return False
        event = self.event(CREATE, header, route.shape, payload, None)
        return self.patterns.matches_any(event.subject)

    def event(
        self, operation: str, header: Header, shape: Shape, payload: bytes, entry: Entry | None
    ) -> Event[Any]:
        """An event that happens now."""
        return Event(operation, header, shape, payload, entry, self.own_id, self.now_s)


def _merged(
    plan: StructPlan, known: Entry, pieces: Pieces, payload: bytes, header: Header
) -> tuple[bytes, i64]:
    """The object after an update, and its property set."""
    present: i64 = pieces.present
    # What comes out of the node's cache is the whole object; and where an update names all that
    # there was and is, nothing of the old state is left.
    if header.from_cache >= 0:
        return payload, present
    if (known.present | present) & ~header.attributes & ~plan.key_mask == 0:
        return payload, present
    named = header.attributes & ~plan.key_mask
    whole = merge_pieces(plan, known.payload, pieces, header.attributes)
    return whole, (known.present & ~named) | (present & (named | plan.key_mask))
