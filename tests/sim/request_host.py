"""A node with an observer: a client in its process that subscribes to claims, calls and objects.

The observer receives them in the order in which the node accepts them. So the holder of an object
is known at each update, independent of the connections of other programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from skerry.client.core.events import Event as ClientEvent
from skerry.client.core.node_connection import NodeConnection
from skerry.client.core.settings import SpaceConfig
from skerry.client.core.space import SpaceCore
from skerry.engine.admission.quotas import ClientLimits
from skerry.objects.internal import internal_class
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address, Connect, MachineEvent, Transmit
from skerry.testing.machines.node_host import NodeHost
from skerry.testing.machines.program import NODE, TYPES
from skerry.testing.node import Setting
from tests.sim.request_history import TASKS

__all__ = [
    "OBSERVER",
    "OWNED_TYPES",
    "REQUEST_LIMITS",
    "HolderChanged",
    "RequestCompleted",
    "RequestHost",
    "UpdateAccepted",
]

REQUEST_LIMITS: Final = ClientLimits(
    claim_count_max=6, request_count_max=25, waiting_bytes_max=8_000
)
"""Low bounds, which are reached soon."""
OWNED_TYPES: Final = ("Boat", "Guest")
"""Types whose objects programs claim."""
OBSERVER: Final = Address("observer", 1, is_stream=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderChanged(MachineEvent):
    """The holder of a claim changed. Client 0 means that there is no holder."""

    kind: str
    subject: str
    client: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAccepted(MachineEvent):
    """The node accepted an update of an object."""

    type_name: str
    id: str
    sender: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCompleted(MachineEvent):
    """The node reported the end of a request."""

    number: int
    """Number of the task."""
    outcome: str
    server: int
    """The client that received the request; 0 for none."""


class RequestHost(NodeHost):
    """A node that reports accepted claims, updates and ends of requests."""

    def __init__(self, setting: Setting, *, limits: ClientLimits = REQUEST_LIMITS) -> None:
        super().__init__(setting, limits=limits)
        self._observed: list[MachineEvent] = []
        self._observer = SpaceCore(
            NodeConnection(
                node=NODE,
                wire=lambda _: Wire(),
                rng=Random(self._rng.getrandbits(64)),
                config=SpaceConfig(name=OBSERVER.host),
                wall_offset_ns=setting.wall_offset_ns,
            )
        )
        classes = [internal_class("SkerryHolder"), internal_class("SkerryCall")]
        for cls in (*classes, *(TYPES[name] for name in OWNED_TYPES)):
            self._observer.subscribe(cls, self._on_event, setting.now_ns)
        self._observer.connection.start(setting.now_ns)
        self._observer.connection.advance(setting.now_ns)
        self._start_ns = setting.now_ns

    def take_events(self) -> list[MachineEvent]:
        """Events of the node, and those of the observer."""
        events = super().take_events()
        observed, self._observed = self._observed, []
        return [*events, *observed]

    def take_transmits(self) -> list[Transmit]:
        """Exchange bytes between node and observer until none are left; return other transmits."""
        outside: list[Transmit] = []
        while True:
            # Before its first connection, which is the observer, the node has no time.
            now_ns = max(self.core.host.clock.now_ns, self._start_ns)
            said = self._observer.connection.take_transmits()
            for item in said:
                if isinstance(item, Connect):
                    self.core.stream_opened(OBSERVER, now_ns)
                    self._observer.connection.stream_opened(NODE, now_ns)
                else:
                    self.core.receive(item.data, OBSERVER, now_ns)
            sent = super().take_transmits()
            for item in sent:
                if item.destination == OBSERVER:
                    self._observer.connection.receive(item.data, NODE, now_ns)
                else:
                    outside.append(item)
            if not said and not sent:
                return outside

    def _on_event(self, event: ClientEvent[Any]) -> None:
        if event.is_from_cache:
            return
        obj = event.object
        if event.type_name == "SkerryHolder":
            client = 0 if event.operation == "remove" else obj.client
            report: MachineEvent = HolderChanged(
                kind=obj.kind.label, subject=obj.subject, client=client
            )
        elif event.type_name == "SkerryCall":
            task: Any = TASKS[obj.typeName].decode(obj.object)
            report = RequestCompleted(
                number=task.number, outcome=obj.outcome.label, server=obj.servedBy or 0
            )
        else:
            sender = int(event.header.sender)
            report = UpdateAccepted(type_name=event.type_name, id=obj.id, sender=sender)
        self._observed.append(report)
