"""Checkers of a node and its clients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from skerry.client.core.states import Refusal, SpaceState, StateChanged, TypeConflict
from skerry.engine.events import ClientDisconnected, ClientRefused
from skerry.engine.events import DefinitionRefused as NodeTypeConflict
from skerry.limits import REPLAY_SLICE_BYTES
from skerry.protocol.machine import MachineEvent
from skerry.testing.checkers import Checker
from skerry.testing.machines.node_host import NodeHost
from skerry.testing.machines.program import (
    CLEANUP,
    FIELDS,
    MESSAGE,
    PERSISTENT,
    TYPES,
    Doubted,
    Failed,
    Flushed,
    History,
    Program,
    Publish,
    Publisher,
    Seen,
    Subscribed,
    matches,
)
from skerry.testing.node import Node
from skerry.testing.world import World

_SILENT = "the node is silent"
"""The reason of a client that received nothing for long, which is not a violation."""

_State = Mapping[str, Any]
_Listener = tuple[str, int, int]
"""A subscription in one life of a program."""


def objects_of(host: NodeHost, type_name: str) -> dict[str, _State]:
    """The fields of the cached objects of a type, by key."""
    decode = TYPES[type_name].decode
    objects = [decode(entry.payload) for _, entry in host.core.cache.objects(type_name)]
    return {
        obj.id: {name: value for name in FIELDS if (value := getattr(obj, name)) is not None}
        for obj in objects
    }


def subjects_of(host: NodeHost, type_name: str) -> dict[str, str]:
    """The subjects of the cached objects of a type, by key; empty for the default one."""
    decode: Any = TYPES[type_name].decode
    return {decode(e.payload).id: e.subject for _, e in host.core.cache.objects(type_name)}


class Genuine(Checker):
    """Every value that a subscriber receives was published for that field of that object."""

    def __init__(self, history: History) -> None:
        self._history = history

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, Seen):
            for name, value in event.state.items():
                if value not in self._history.values[event.type_name, event.id, name]:
                    what = f"{event.type_name} {event.id} with {name} {value!r}"
                    return f"{node.name} received {what}, which was not published"
        return None


class OrderKept(Checker):
    """Updates of one publisher arrive in its order; for conflating subscribers, per object."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._last: dict[tuple[_Listener, Publisher, str], int] = {}

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        publish = _live(self._history, event)
        if publish is None or not isinstance(event, Seen):
            return None
        subscription = node.machine.subscriptions.get(event.subscription)
        is_strict = subscription is not None and subscription.on_slow == "disconnect"
        # Conflated updates of earlier subscriptions may arrive later than others.
        line = "" if is_strict and event.is_replay_complete else f"{event.type_name}/{event.id}"
        at = (_listener(node, event), publish.publisher, line)
        last = self._last.get(at, 0)
        self._last[at] = publish.number
        if publish.number > last:
            return None
        who = publish.publisher[0]
        return f"{node.name} received publish {publish.number} of {who} after number {last}"


class NothingLeftOut(Checker):
    """A continuous subscriber of a type without conflation receives every update of it.

    Only `types` are checked, because updates of others may be refused.
    """

    def __init__(self, history: History, types: Collection[str] = tuple(TYPES)) -> None:
        self._history = history
        self._types = types
        self._last: dict[tuple[_Listener, Publisher], tuple[Publish, int]] = {}

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        publish = _live(self._history, event)
        if publish is None or not isinstance(event, Seen):
            return None
        subscription = node.machine.subscriptions.get(event.subscription)
        if subscription is None or subscription.kind != "type":
            return None
        if event.type_name not in self._types:
            return None
        at = (_listener(node, event), publish.publisher)
        last = self._last.pop(at, None)
        is_strict = subscription.on_slow == "disconnect"
        if event.is_replay_complete and is_strict and _is_joined(node.machine, event):
            self._last[at] = (publish, event.turn)
        if last is None or last[1] != event.turn or last[0].connection != publish.connection:
            return None
        if publish.index == last[0].index + 1:
            return None
        count = publish.index - last[0].index - 1
        return f"{node.name} misses {count} updates before number {publish.number}"


class ConsistentEvents(Checker):
    """The events of each subscriber are consistent: create, update of the named fields, remove.

    It also keeps the resulting objects of each subscriber, for `SameObjects`.
    """

    def __init__(self) -> None:
        self.objects: dict[_Listener, dict[tuple[str, str], _State]] = {}

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, Seen) or event.type_name == MESSAGE:
            return None
        objects = self.objects.setdefault(_listener(node, event), {})
        at = (event.type_name, event.id)
        known = objects.get(at)
        if (known is None) != (event.operation == "create"):
            has = "does not exist" if known is None else "exists"
            what = f"{event.operation} of {event.type_name} {event.id}"
            return f"{node.name} received {what}, which {has}"
        if event.operation == "remove":
            expected = objects.pop(at)
        else:
            base = {} if known is None or event.is_from_cache else known
            merged = {**base, **event.update}
            expected = {name: value for name, value in merged.items() if value is not None}
            objects[at] = event.state
        if event.state == expected:
            return None
        what = f"{event.type_name} {event.id} as {event.state!r:.200}"
        return f"{node.name} received {what}, expected {expected!r:.200}"


class SameObjects(Checker):
    """Liveness: the objects of each subscription equal those of the node."""

    def __init__(self, node_name: str, consistent: ConsistentEvents) -> None:
        self._node_name = node_name
        self._received = consistent

    def liveness(self, world: World) -> str | None:
        node = world.nodes[self._node_name]
        programs = [other for other in world.nodes.values() if other is not node]
        for other in world.nodes.values():
            if not other.is_up:
                return f"{other.name} is down"
        for other in programs:
            if not other.machine.is_steady or other.machine.space.waiting_bytes:
                return f"{other.name} has not reconnected, or its cache replay is not complete"
        current = {name: objects_of(node.machine, name) for name in TYPES if name != MESSAGE}
        for other in programs:
            for subscription in other.machine.subscriptions.values():
                fault = self._difference(other, subscription, node.machine, current)
                if fault is not None:
                    return f"{other.name}, {subscription.kind} {subscription.what}: {fault}"
        return None

    def _difference(
        self,
        node: Node[Program],
        subscription: Subscribed,
        host: NodeHost,
        current: Mapping[str, dict[str, _State]],
    ) -> str | None:
        subjects = {name: subjects_of(host, name) for name in current}
        expected = {
            (name, key): _cut(state, subscription)
            for name, objects in current.items()
            for key, state in objects.items()
            if _is_wanted(subscription, name, key, state, subjects[name][key])
        }
        received = self._received.objects.get((node.name, node.life, subscription.number), {})
        if received != expected:
            return _first_difference(received, expected)
        route = subscription.node_subscription.route
        if subscription.kind != "type" or route is None or route.store is None:
            return None
        held = {key: entry.payload for key, entry in route.store.objects.items()}
        if held != {
            key: entry.payload for key, entry in host.core.cache.objects(subscription.what)
        }:
            return "its container differs from the cache of the node"
        return None


class _OfNode(Checker):
    """A condition of the node, as long as it is up."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name

    def safety(self, world: World) -> str | None:
        node = world.nodes[self._node_name]
        return self.fault(node) if node.is_up else None

    @abstractmethod
    def fault(self, node: Node[NodeHost]) -> str | None:
        """The violation, or None."""


class ConfirmedIsKept(_OfNode):
    """A persistent object is never older than its last confirmed flush, also after a crash.

    Each object is written by one life of one program only, so its publishes are ordered.
    """

    def __init__(self, node_name: str, history: History) -> None:
        super().__init__(node_name)
        self._history = history
        self._pending: dict[Publisher, list[Publish]] = {}
        self._confirmed: dict[str, Publish] = {}
        self._last_remove: dict[str, int] = {}

    def published(self, publish: Publish) -> None:
        """Record a publish or the removal of a persistent object."""
        self._pending.setdefault(publish.publisher, []).append(publish)
        if publish.is_remove:
            self._last_remove[publish.id] = publish.number

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, (Flushed, Doubted)):
            return None
        pending = self._pending.get((node.name, node.life), [])
        for publish in [item for item in pending if item.number <= event.number]:
            pending.remove(publish)
            if isinstance(event, Flushed):
                self._confirmed[publish.id] = publish
        return None

    def fault(self, node: Node[NodeHost]) -> str | None:
        objects = objects_of(node.machine, PERSISTENT)
        for key, publish in self._confirmed.items():
            state = objects.get(key)
            if state is not None and state["number"] >= publish.number:
                continue
            if state is None and self._last_remove.get(key, 0) >= publish.number:
                continue
            if state is not None and publish.is_remove:
                return f"{key} exists, but its removal by number {publish.number} was confirmed"
            found = "does not exist" if state is None else f"is at number {state['number']}"
            return f"{key} {found}, but number {publish.number} was confirmed"
        return None


class CleanedUp(_OfNode):
    """Objects of a type with `cleanup` belong to connected clients."""

    def fault(self, node: Node[NodeHost]) -> str | None:
        present = {row.client_id for row in node.machine.statistics().clients}
        for _, entry in node.machine.core.cache.objects(CLEANUP):
            if entry.modified_from not in present:
                return f"an object of the disconnected client {entry.modified_from} still exists"
        return None


class Explained(_OfNode):
    """The ledger of the node balances at any time."""

    def fault(self, node: Node[NodeHost]) -> str | None:
        statistics = node.machine.statistics()
        if not statistics.unexplained:
            return None
        rows: list[Any] = [*statistics.clients, *statistics.types]
        wrong = [f"{row.name}: {row.ledger}" for row in rows if row.ledger.unexplained]
        if not wrong:
            return f"{statistics.unexplained} requests are not explained: {statistics.requests}"
        return f"{statistics.unexplained} updates are not explained: {wrong[0]}"


class Bounded(_OfNode):
    """The bytes queued for a client are within the limits, at the node and at the stream."""

    def __init__(self, node_name: str, waiting_bytes_max: int) -> None:
        super().__init__(node_name)
        self._waiting_bytes_max = waiting_bytes_max

    def fault(self, node: Node[NodeHost]) -> str | None:
        for row in node.machine.statistics().clients:
            if row.queued_bytes > self._waiting_bytes_max:
                return f"{row.queued_bytes} bytes wait for {row.name} at the node"
        # A stream with free space receives the queue and then a slice of a cache replay.
        room = node.world.network.streams.window_bytes
        room += self._waiting_bytes_max + 2 * REPLAY_SLICE_BYTES
        for end in node.streams.values():
            if end.outgoing_bytes > room:
                return f"{end.outgoing_bytes} bytes wait at the stream to {end.peer.host}"
        return None


class ConflatedIsNotCut(Checker):
    """A client with conflating subscriptions only is never disconnected for being slow."""

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if not isinstance(event, ClientDisconnected) or event.reason != "slow":
            return None
        program = node.world.nodes[event.name]
        # Its subscriptions may have changed since.
        if not program.is_up or program.machine.is_old or program.machine.was_strict:
            return None
        return f"{node.name} disconnected {event.name}: {event.detail}"


class NobodyIsBlamed(Checker):
    """No program is refused anything, and none violates the protocol or fails.

    Reasons that contain one of the `excused` texts are ignored.
    """

    def __init__(self, *excused: str) -> None:
        self._excused = excused

    def observed(self, node: Node[Any], event: MachineEvent) -> str | None:
        if isinstance(event, ClientDisconnected) and event.reason in (
            "fault",
            "refused",
            "rejected",
        ):
            if event.detail.endswith(_SILENT):
                return None
            return self._blame(f"{node.name} disconnected {event.name}: {event.detail}")
        if isinstance(event, ClientRefused):
            what = f"refused {event.name} to {event.what}"
            return self._blame(f"{node.name} {what}: {event.detail}")
        if isinstance(event, (Failed, Refusal, TypeConflict, NodeTypeConflict)):
            return self._blame(f"{node.name}: {event}")
        if isinstance(event, StateChanged):
            is_blamed = event.reason.startswith(("the node broke", "the node sent an invalid"))
            if is_blamed or event.state is SpaceState.CLOSED:
                return self._blame(f"{node.name} is {event}")
        return None

    def _blame(self, fault: str) -> str | None:
        return None if any(text in fault for text in self._excused) else fault


def _live(history: History, event: MachineEvent) -> Publish | None:
    """The publish of a live update; None for other events."""
    if not isinstance(event, Seen) or event.is_from_cache or event.operation == "remove":
        return None
    return history.publishes.get(event.update.get("number") or 0)


def _is_joined(program: Program, event: Seen) -> bool:
    """Whether the event arrived because of the subscription to its type, and not by a pattern.

    A node does not confirm a subscription to messages. Until it is active, messages may arrive by
    a pattern.
    """
    has_pattern = any(item.kind == "pattern" for item in program.subscriptions.values())
    return event.type_name != MESSAGE or not (has_pattern or program.has_left)


def _listener(node: Node[Any], event: Seen) -> _Listener:
    return node.name, node.life, event.subscription


def _is_wanted(
    subscription: Subscribed, type_name: str, key: str, state: _State, subject: str
) -> bool:
    if subscription.kind == "pattern":
        return matches(subscription.what, type_name, key, subject)
    if subscription.what != type_name:
        return False
    return subscription.kind == "type" or state.get("level", 0) > subscription.level_min


def _cut(state: _State, subscription: Subscribed) -> _State:
    if subscription.kind != "where":
        return state
    return {name: value for name, value in state.items() if name in subscription.fields}


def _first_difference(
    received: Mapping[tuple[str, str], _State], expected: Mapping[tuple[str, str], _State]
) -> str:
    for at in sorted({*received, *expected}):
        if received.get(at) != expected.get(at):
            ours, theirs = f"{received.get(at)!r:.200}", f"{expected.get(at)!r:.200}"
            return f"{' '.join(at)} is {ours}, at the node it is {theirs}"
    raise AssertionError("there is no difference")
