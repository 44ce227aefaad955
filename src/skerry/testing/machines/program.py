"""A client program for simulated systems: a space and its subscriptions.

A workload drives it. The events that its callbacks receive become machine events for checkers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from skerry.client.core.event_queue import OnSlow
from skerry.client.core.events import Event as ClientEvent
from skerry.client.core.flushes import Flush
from skerry.client.core.node_connection import NodeConnection
from skerry.client.core.node_subscription import NodeSubscription
from skerry.client.core.settings import SpaceConfig, SpaceStatistics
from skerry.client.core.space import SpaceCore
from skerry.client.core.states import CallbackFailed, ClaimsChanged, SpaceState, StateChanged
from skerry.client.core.type_route import Target
from skerry.errors import Disconnected
from skerry.objects.base import Struct
from skerry.objects.internal import internal_class
from skerry.objects.times import seconds_of_ns
from skerry.objects.typeset import define_types
from skerry.protocol.access.wire import OldWire, Wire
from skerry.protocol.backoff import Backoff
from skerry.protocol.machine import Address, CloseReason, MachineEvent, Transmit
from skerry.protocol.patterns import PatternTree
from skerry.testing.machines.node_host import OLD_PREFIX
from skerry.testing.node import Setting

_FIELDS_TEXT: Final = (
    "1: [key] string id; 2: uint64 number; 3: uint8 level; 4: string note; 5: uint64 extra;"
)
TYPES: Final = define_types(
    f"struct Boat {{ {_FIELDS_TEXT} }}"
    f"struct Guest [cleanup] {{ {_FIELDS_TEXT} }}"
    f"struct Chart [persistent=true] {{ {_FIELDS_TEXT} }}"
    f"struct Call [cached=false] {{ {_FIELDS_TEXT} }}"
)
PLAIN: Final = "Boat"
CLEANUP: Final = "Guest"
PERSISTENT: Final = "Chart"
MESSAGE: Final = "Call"
FIELDS: Final = ("number", "level", "note", "extra")

Publisher = tuple[str, int]
"""Name of a program, and number of its life."""

_State = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """One publish, or removal, of an object."""

    number: int
    publisher: Publisher
    type_name: str
    id: str
    is_remove: bool
    index: int
    """Number of earlier publishes of this type by the publisher."""
    connection: int
    """Publishes with the same value were sent on the same connection."""


class History:
    """All publishes of a world.

    Every publish has a unique number, which is a field of the object. So a checker can compare
    every event of a subscriber with the publish that caused it.
    """

    def __init__(self) -> None:
        self.publishes: dict[int, Publish] = {}
        self.values: dict[tuple[str, str, str], set[Any]] = defaultdict(set)
        """All published values, by type, key and field."""
        self.next_number = 1
        self._counts: dict[tuple[Publisher, str], int] = defaultdict(int)

    def announce(self, type_name: str, key: str, fields: _State) -> None:
        """Record the values of a publish, before it is published."""
        for name, value in fields.items():
            self.values[type_name, key, name].add(value)

    def add(
        self, publisher: Publisher, type_name: str, key: str, *, is_remove: bool, connection: int
    ) -> Publish:
        """Record a publish with the number `next_number`."""
        number = self.next_number
        self.next_number += 1
        index = self._counts[publisher, type_name]
        # Removals are not counted, because the removal of a missing object has no event.
        self._counts[publisher, type_name] += not is_remove
        publish = Publish(
            number=number,
            publisher=publisher,
            type_name=type_name,
            id=key,
            is_remove=is_remove,
            index=index,
            connection=connection,
        )
        self.publishes[number] = publish
        return publish


def subject_of(type_name: str, key: str) -> str:
    """The subject under which all programs publish an object; empty for the default one."""
    return f"/fleet/{type_name}/{key}" if key.startswith("s") else ""


def matches(pattern: str, type_name: str, key: str, subject: str) -> bool:
    """Whether a pattern selects an object that has this subject, or the default one."""
    tree = PatternTree()
    tree.add(pattern, True)
    return tree.matches_any(subject or f"/{type_name}/{key}")


# -- what programs publish


NODE: Final = Address("node", 7, is_stream=True)

Kind = Literal["type", "pattern", "where"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(MachineEvent):
    """A subscriber received an event."""

    subscription: int
    operation: str
    type_name: str
    id: str
    is_from_cache: bool
    update: Mapping[str, Any]
    """The fields in the property set of the update; None for unset ones."""
    state: Mapping[str, Any]
    """The set fields of the object after the update, or before its removal."""
    is_replay_complete: bool
    """Whether the cache replay of the subscription is complete and not repeated."""
    turn: int
    """Counts changes of the subscriptions and reconnections of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed(MachineEvent):
    """A flush was confirmed: publishes of this life up to a number have reached the node, except
    doubted ones."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubted(MachineEvent):
    """Publishes up to a number may not have reached the node."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(MachineEvent):
    """A callback raised an error."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribed:
    number: int
    kind: Kind
    what: str
    """Name of the type, or a pattern."""
    level_min: int
    """The condition of kind `where`: objects with a higher level."""
    fields: tuple[str, ...]
    on_slow: OnSlow
    node_subscription: NodeSubscription
    target: Target


class Program:
    """A space that is driven by a workload."""

    space_class: type[SpaceCore] = SpaceCore
    """Tests replace it by a broken one."""

    def __init__(self, setting: Setting, *, send_bytes_max: int = 100_000) -> None:
        self.is_old = setting.name.startswith(OLD_PREFIX)
        wire = OldWire if self.is_old else Wire
        connection = NodeConnection(
            node=NODE,
            wire=lambda _: wire(),
            rng=setting.rng,
            config=SpaceConfig(
                name=setting.name,
                is_patient=True,
                reconnect=Backoff(first_ns=20_000_000, delay_ns_max=1_000_000_000),
                handshake_ns_max=3_000_000_000,
                answer_ns_max=3_000_000_000,
                idle_ns_max=4_000_000_000,
                send_bytes_max=send_bytes_max,
            ),
            wall_offset_ns=setting.wall_offset_ns,
        )
        self.space = self.space_class(connection)
        self.space.connection.start(setting.now_ns)
        self.subscriptions: dict[int, Subscribed] = {}
        self.turn = 0
        self._wall_offset_ns = setting.wall_offset_ns
        self._next_subscription = 1
        self.was_strict = False
        """Whether it ever had a subscription without conflation."""
        self.has_left = False
        """Whether it left a group on this connection."""
        self._is_retold = False
        """Whether a cache replay may be repeated on this connection. Until it has ended, updates
        are part of it."""
        self._flushes: list[tuple[Flush, int]] = []
        self._events: list[MachineEvent] = []

    # -- actions

    def publish(self, obj: Struct, now_ns: int, *, only: Iterable[str], subject: str) -> None:
        self.space.publish(obj, self._wall_s(now_ns), only, subject)

    def remove(self, obj: Struct, now_ns: int, *, subject: str) -> None:
        self.space.remove(obj, self._wall_s(now_ns), subject)

    def clear(self, type_name: str, now_ns: int) -> None:
        """Remove all objects of a type."""
        order = internal_class("DotsClearCache")(typeNames=[type_name])
        self.space.publish(order, self._wall_s(now_ns))

    def flush(self, number: int, now_ns: int) -> None:
        """Flush all publishes up to a number."""
        try:
            self._flushes.append((self.space.flush(now_ns), number))
        except Disconnected:
            self._events.append(Doubted(number=number))

    def subscribe(
        self,
        kind: Kind,
        what: str,
        now_ns: int,
        *,
        level_min: int = 0,
        fields: tuple[str, ...] = FIELDS,
        on_slow: OnSlow = "disconnect",
    ) -> None:
        """Subscribe to a type, a pattern, or a type under a condition."""
        number = self._next_subscription
        self._next_subscription += 1
        self.was_strict = self.was_strict or on_slow == "disconnect"
        self.turn += 1
        if on_slow == "disconnect" and any(
            item.node_subscription.is_conflated and item.what == what
            for item in self.subscriptions.values()
        ):
            # The subscription is sent again without conflation, and the cache is replayed again.
            self._is_retold = True
        has_condition = kind == "where"
        node_subscription, target = self.space.subscribe(
            what if kind == "pattern" else TYPES[what],
            partial(self._on_event, number),
            now_ns,
            where=f"level > {level_min}" if has_condition else None,
            fields=fields if has_condition else None,
            on_slow=on_slow,
        )
        self.subscriptions[number] = Subscribed(
            number=number,
            kind=kind,
            what=what,
            level_min=level_min,
            fields=fields,
            on_slow=on_slow,
            node_subscription=node_subscription,
            target=target,
        )

    def unsubscribe(self, number: int, now_ns: int) -> None:
        self.turn += 1
        gone = self.subscriptions.pop(number)
        self.has_left = True
        self.space.unsubscribe(gone.node_subscription, gone.target, now_ns, on_slow=gone.on_slow)

    @property
    def is_steady(self) -> bool:
        """Whether it is connected and all cache replays are complete."""
        return self.space.connection.state is SpaceState.CONNECTED and all(
            item.node_subscription.is_complete for item in self.subscriptions.values()
        )

    # -- the machine's contract

    def stream_opened(self, peer: Address, now_ns: int) -> None:
        self.space.connection.stream_opened(peer, now_ns)

    def stream_closed(self, peer: Address, reason: CloseReason, now_ns: int) -> None:
        self.space.connection.stream_closed(peer, reason, now_ns)

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        self.space.connection.receive(data, source, now_ns)

    def pause(self, _peer: Address) -> None:
        self.space.connection.pause()

    def resume(self, _peer: Address, _now_ns: int) -> None:
        self.space.connection.resume()

    def advance(self, now_ns: int) -> None:
        self.space.connection.advance(now_ns)

    def deadline_ns(self) -> int | None:
        return self.space.connection.deadline_ns()

    def take_transmits(self) -> list[Transmit]:
        return self.space.connection.take_transmits()

    def take_events(self) -> list[MachineEvent]:
        for event in self.space.connection.take_events():
            if isinstance(event, ClaimsChanged):
                for callback in event.callbacks:
                    callback()
                continue
            if isinstance(event, StateChanged):
                self.turn += 1
                self._is_retold = False
                self.has_left = False
            if isinstance(event, CallbackFailed):
                event = Failed(detail=f"{type(event.error).__name__}: {event.error}")
            self._events.append(event)
        self._end_flushes()
        events, self._events = self._events, []
        return events

    def statistics(self) -> SpaceStatistics:
        return self.space.connection.statistics()

    def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
        self._wall_offset_ns = wall_offset_ns
        self.space.connection.set_wall_offset(wall_offset_ns, now_ns)

    # -- inside

    def _on_event(self, number: int, event: ClientEvent[Any]) -> None:
        if event.type_name not in TYPES:
            return
        obj, named = event.object, int(event.header.attributes)
        update = {
            field.attribute: getattr(event.update, field.attribute)
            for field in event.shape.plan.fields
            if named >> int(field.tag) & 1
        }
        state = {name: value for name in FIELDS if (value := getattr(obj, name)) is not None}
        subscription = self.subscriptions.get(number)
        is_complete = subscription is not None and subscription.node_subscription.is_complete
        self._events.append(
            Seen(
                subscription=number,
                operation=event.operation,
                type_name=event.type_name,
                id=obj.id,
                is_from_cache=event.is_from_cache,
                update={name: value for name, value in update.items() if name != "id"},
                state=state,
                is_replay_complete=is_complete and not self._is_retold,
                turn=self.turn,
            )
        )

    def _end_flushes(self) -> None:
        for item in [item for item in self._flushes if item[0].is_done]:
            self._flushes.remove(item)
            flush, number = item
            kind = Flushed if flush.error is None else Doubted
            self._events.append(kind(number=number))

    def _wall_s(self, now_ns: int) -> float:
        return seconds_of_ns(now_ns + self._wall_offset_ns)
