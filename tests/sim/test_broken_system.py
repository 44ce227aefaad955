"""Machines of a system that are broken on purpose: every one of them is caught by few seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skerry.engine.system.system_core import SystemCore
from skerry.errors import SimulationError
from skerry.protocol.link.events import RecordsReceived
from skerry.protocol.machine import MachineEvent
from skerry.protocol.picture.entries import NodeEntry
from skerry.protocol.picture.events import PictureChanged
from skerry.testing import World
from skerry.testing.machines.system_checkers import (
    EachMessageOnce,
    FormedAlone,
    HeardFirst,
    OnePicture,
)
from skerry.testing.machines.system_scenarios import play_system

pytestmark = pytest.mark.slow

SEED_COUNT = 30


class DeliversTwice(SystemCore):
    """Reports some messages again."""

    def take_events(self) -> list[MachineEvent]:
        events = super().take_events()
        again = [one for one in events if isinstance(one, RecordsReceived) and one.is_reliable]
        return events + again[:1]


class LosesMessages(SystemCore):
    """Drops some of the messages that it has acknowledged."""

    count = 0

    def take_events(self) -> list[MachineEvent]:
        kept: list[MachineEvent] = []
        for event in super().take_events():
            self.count += isinstance(event, RecordsReceived)
            if self.count % 20 or not isinstance(event, RecordsReceived):
                kept.append(event)
        return kept


class ShowsAnotherPicture(SystemCore):
    """Shows itself under another name than the others do."""

    def take_events(self) -> list[MachineEvent]:
        events = super().take_events()
        for place, event in enumerate(events):
            if isinstance(event, PictureChanged):
                nodes = [
                    replace(one, name="I") if one.node == self.node else one
                    for one in event.state.nodes
                ]
                events[place] = PictureChanged(state=replace(event.state, nodes=tuple(nodes)))
        return events


class TrustsHearsay(SystemCore):
    """Includes nodes of which others have told."""

    def advance(self, now_ns: int) -> None:
        for notified in self.discovery.directory.reported.values():
            node_type = self.config.node_types.by_id(notified.type_id)
            if node_type is not None and notified.node not in self.control.peers:
                self.control.meet(notified.node, node_type, notified.control)
                entry = NodeEntry(
                    node=notified.node,
                    name=notified.name,
                    type_id=notified.type_id,
                    control=notified.control,
                    data=notified.data,
                )
                self.picture.node_found(entry, now_ns)
        super().advance(now_ns)


class IgnoresOthers(SystemCore):
    """Takes no notice of the system that is there when it starts."""

    def _control_reported(self, event: MachineEvent, now_ns: int) -> None:
        if self.picture.membership.incarnation_id:
            super()._control_reported(event, now_ns)


class NeverReturns(SystemCore):
    """Stays out after it was excluded, though it should join again."""

    def advance(self, now_ns: int) -> None:
        self._rejoin_ns = None
        super().advance(now_ns)


@pytest.mark.parametrize(
    ("core", "checker"),
    [
        (DeliversTwice, EachMessageOnce.__name__),
        (LosesMessages, EachMessageOnce.__name__),
        (ShowsAnotherPicture, OnePicture.__name__),
        (TrustsHearsay, HeardFirst.__name__),
        (IgnoresOthers, FormedAlone.__name__),
        (NeverReturns, "Agreement"),
    ],
)
def test_a_broken_machine_is_caught(core: type[SystemCore], checker: str) -> None:
    assert any(failed(core, seed) == checker for seed in range(SEED_COUNT))


def failed(core: type[SystemCore], seed: int) -> str:
    """The checker that fails with a seed; empty if none does."""
    try:
        play_system(World(seed), 4, core=core)
    except SimulationError as error:
        return error.checker
    return ""
