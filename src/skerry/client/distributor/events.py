"""Events about subscribers that do not keep up; all others are those of the protocol."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.protocol.machine import MachineEvent

__all__ = ["SubscriberCut", "UpdatesDropped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesDropped(MachineEvent):
    """So many updates waited for too long and were dropped: those before what comes next."""

    update_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberCut(MachineEvent):
    """The subscriber did not keep up and is closed; so many updates waited."""

    update_count: int
