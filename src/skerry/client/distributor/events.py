"""Events about slow subscribers. All other events are those of the protocol."""

from __future__ import annotations

from dataclasses import dataclass

from skerry.protocol.machine import MachineEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesDropped(MachineEvent):
    """The subscriber was too slow: updates before the next ones were dropped."""

    update_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriberCut(MachineEvent):
    """The subscriber was too slow and is closed; the updates that waited are dropped."""

    update_count: int
