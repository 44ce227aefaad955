"""A machine without behaviour of its own: it sends what a test hands it and records every call."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.protocol.machine import (
    Address,
    CloseReason,
    Connect,
    Disconnect,
    MachineEvent,
    Statistics,
    Transmit,
)
from skerry.protocol.outbox import Outbox
from skerry.testing.node import Setting

__all__ = ["Heard", "Probe", "ProbeStatistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(MachineEvent):
    """The probe received a datagram, or a part of a stream."""

    data: bytes
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStatistics(Statistics):
    heard_count: int
    sent_count: int


class Probe(Outbox):
    """Its class is its factory: `world.add("a", Probe)`."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.wall_offset_ns = setting.wall_offset_ns
        self.heard: list[bytes] = []
        self.sources: list[Address] = []
        self.heard_at_ns: list[int] = []
        self.advanced_at_ns: list[int] = []
        self.opened: list[Address] = []
        self.closed: list[tuple[Address, CloseReason]] = []
        self.paces: list[tuple[str, Address]] = []
        """Each call of `pause` and `resume`: its name and the peer."""
        self.stored = b""
        """The content of the disk that the next life finds."""
        self.wake_ns: int | None = None
        """The deadline. `advance` clears it."""
        super().__init__()
        self._sent_count = 0

    def send(self, destination: Address, *datagrams: bytes) -> None:
        for data in datagrams:
            self._transmits.append(Transmit(destination=destination, data=data))
            self._sent_count += 1

    def connect(self, destination: Address) -> None:
        self._transmits.append(Connect(destination=destination))

    def disconnect(self, destination: Address, *, is_abrupt: bool = False) -> None:
        self._transmits.append(Disconnect(destination=destination, is_abrupt=is_abrupt))

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        self.heard.append(data)
        self.sources.append(source)
        self.heard_at_ns.append(now_ns)
        self._events.append(Heard(data=data, source=source.host))

    def stream_opened(self, peer: Address, _now_ns: int) -> None:
        self.opened.append(peer)

    def stream_closed(self, peer: Address, reason: CloseReason, _now_ns: int) -> None:
        self.closed.append((peer, reason))

    def pause(self, peer: Address) -> None:
        """Record the call. The probe keeps sending."""
        self.paces.append(("pause", peer))

    def resume(self, peer: Address, _now_ns: int) -> None:
        self.paces.append(("resume", peer))

    def set_wall_offset(self, wall_offset_ns: int, _now_ns: int) -> None:
        self.wall_offset_ns = wall_offset_ns

    def advance(self, now_ns: int) -> None:
        self.advanced_at_ns.append(now_ns)
        self.wake_ns = None

    def deadline_ns(self) -> int | None:
        return self.wake_ns

    def statistics(self) -> ProbeStatistics:
        return ProbeStatistics(heard_count=len(self.heard), sent_count=self._sent_count)

    def durable(self) -> bytes:
        return self.stored
