"""A node with a witness: a client in the same process that hears of all claims, calls and objects.

What the witness is told is told to every client, in the one order in which the node accepts it. So
it is known at each update whose the object was then, whatever becomes of the programs outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from skerry.client.core.events import Event as Told
from skerry.client.core.space import SpaceConfig, SpaceCore
from skerry.engine.admission.quotas import ClientLimits
from skerry.objects.internal import internal_class
from skerry.protocol.access.wire import Wire
from skerry.protocol.machine import Address, Connect, MachineEvent, Transmit
from skerry.testing.machines.node_history import TYPES
from skerry.testing.machines.node_host import NodeHost
from skerry.testing.machines.program import NODE
from skerry.testing.machines.request_history import TASKS
from skerry.testing.node import Setting

__all__ = [
    "OWNED_TYPES",
    "REQUEST_LIMITS",
    "WITNESS",
    "Over",
    "RequestHost",
    "Taken",
    "UpdateAccepted",
]

REQUEST_LIMITS: Final = ClientLimits(
    claim_count_max=6, request_count_max=25, waiting_bytes_max=8_000
)
"""Little enough to be reached soon."""
OWNED_TYPES: Final = ("Boat", "Guest")
"""Of which programs claim objects."""
WITNESS: Final = Address("witness", 1, is_stream=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken(MachineEvent):
    """Somebody holds something from now on; client 0 if nobody does."""

    kind: str
    subject: str
    client: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAccepted(MachineEvent):
    """The node took an update of an object."""

    type_name: str
    id: str
    sender: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Over(MachineEvent):
    """A request is over, as the node tells it."""

    number: int
    """Of the task."""
    outcome: str
    server: int
    """The client that was given it; 0 if none was."""


class RequestHost(NodeHost):
    """A node that tells what it accepts."""

    def __init__(self, setting: Setting, *, limits: ClientLimits = REQUEST_LIMITS) -> None:
        super().__init__(setting, limits=limits)
        self._witnessed: list[MachineEvent] = []
        self._witness = SpaceCore(
            node=NODE,
            wire=lambda _: Wire(),
            rng=Random(self._rng.getrandbits(64)),
            config=SpaceConfig(name=WITNESS.host),
            wall_offset_ns=setting.wall_offset_ns,
        )
        classes = [internal_class("SkerryHolder"), internal_class("SkerryCall")]
        for cls in (*classes, *(TYPES[name] for name in OWNED_TYPES)):
            self._witness.subscribe(cls, self._told, setting.now_ns)
        self._witness.start(setting.now_ns)
        self._witness.advance(setting.now_ns)
        self._start_ns = setting.now_ns

    def take_events(self) -> list[MachineEvent]:
        """What the node tells whoever runs it, and what the witness heard."""
        events = super().take_events()
        witnessed, self._witnessed = self._witnessed, []
        return [*events, *witnessed]

    def take_transmits(self) -> list[Transmit]:
        """What the node sends, when all is said between it and the witness."""
        outside: list[Transmit] = []
        while True:
            # The node knows no time before the first who comes, which is the witness.
            now_ns = max(self.core.now_ns, self._start_ns)
            said = self._witness.take_transmits()
            for item in said:
                if isinstance(item, Connect):
                    self.core.stream_opened(WITNESS, now_ns)
                    self._witness.stream_opened(NODE, now_ns)
                else:
                    self.core.receive(item.data, WITNESS, now_ns)
            sent = super().take_transmits()
            for item in sent:
                if item.destination == WITNESS:
                    self._witness.receive(item.data, NODE, now_ns)
                else:
                    outside.append(item)
            if not said and not sent:
                return outside

    def _told(self, event: Told[Any]) -> None:
        if event.is_from_cache:
            return
        obj = event.object
        if event.type_name == "SkerryHolder":
            client = 0 if event.operation == "remove" else obj.client
            told: MachineEvent = Taken(kind=obj.kind.label, subject=obj.subject, client=client)
        elif event.type_name == "SkerryCall":
            task: Any = TASKS[obj.typeName].decode(obj.object)
            told = Over(number=task.number, outcome=obj.outcome.label, server=obj.servedBy or 0)
        else:
            sender = int(event.header.sender)
            told = UpdateAccepted(type_name=event.type_name, id=obj.id, sender=sender)
        self._witnessed.append(told)
