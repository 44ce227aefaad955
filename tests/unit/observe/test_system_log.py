"""Changes and alarms of a system, each logged once."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from skerry.engine.services.picture import Observations
from skerry.observe.system_log import CLOCK_ALARM_MS, SystemLog
from skerry.protocol.machine import Address
from skerry.protocol.picture.entries import NodeEntry, SystemState

SECOND = 1_000_000_000


def entry(node: int, name: str, host: str = "10.0.0.1") -> NodeEntry:
    control = Address(host, 26660)
    return NodeEntry(node=node, name=name, type_id=1, control=control, data=control)


NORTH, SOUTH = entry(1, "north"), entry(2, "south", "fd00::5")
ALONE = SystemState(elected_id=1, election_id=7, sequence=1, nodes=(NORTH,))
BOTH = replace(ALONE, sequence=2, nodes=(NORTH, SOUTH))


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "skerry")


def facts_of(record: logging.LogRecord, *names: str) -> list[object]:
    return [vars(record)[name] for name in names]


def test_the_first_picture_is_logged_and_then_what_has_changed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = SystemLog()
    log.picture(ALONE)
    log.picture(BOTH)
    log.picture(replace(BOTH, sequence=3))
    log.picture(replace(BOTH, elected_id=2, election_id=8, sequence=1))
    # The exclusion of a node is an event of its own.
    gone = replace(SOUTH, is_dead=True)
    log.picture(replace(BOTH, elected_id=2, election_id=8, sequence=2, nodes=(NORTH, gone)))
    first, joined, elected = caplog.records
    assert first.getMessage() == "the node has a picture of its system"
    assert facts_of(first, "alive", "elected") == ["north", "north"]
    assert joined.getMessage() == "a node joined the system"
    assert facts_of(joined, "node", "id", "control") == [
        *("south", "0000000000000002", "[fd00::5]:26660"),
    ]
    assert elected.getMessage() == "the nodes have elected another node"
    assert facts_of(elected, "node", "id") == ["south", "0000000000000002"]


def test_after_the_node_has_left_it_begins_again(caplog: pytest.LogCaptureFixture) -> None:
    log = SystemLog()
    log.picture(ALONE)
    log.reset()
    log.picture(BOTH)
    assert facts_of(caplog.records[-1], "alive") == ["north, south"]


def test_alarms_are_logged_once_while_they_last(caplog: pytest.LogCaptureFixture) -> None:
    log = SystemLog()
    log.picture(BOTH)
    caplog.clear()
    log.observed(Observations(clock_offsets_ms={2: CLOCK_ALARM_MS}))
    assert caplog.records == []
    for offset_ms in (-CLOCK_ALARM_MS - 100, -CLOCK_ALARM_MS - 200):
        log.observed(Observations(clock_offsets_ms={2: offset_ms}, unheard_by={1: (2, 9)}))
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("WARNING", "the clock of a node differs"),
        ("WARNING", "a link is one-way"),
        ("WARNING", "a link is one-way"),
    ]
    clock, south, unknown = caplog.records
    assert facts_of(clock, "node", "ahead_s") == ["south", -1.1]
    assert facts_of(south, "what") == ["south receives nothing of north"]
    assert facts_of(unknown, "what") == ["0000000000000009 receives nothing of north"]


def test_drops_that_show_a_mistake_are_logged_until_they_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = SystemLog()
    for second in range(100):
        log.dropped({"forged": second, "stranger": 7 * second}, second * SECOND)
    (first,) = caplog.records
    assert first.getMessage() == "datagrams of other nodes are dropped"
    assert "another key" in str(facts_of(first, "reason")[0])
    log.dropped({"forged": 99}, 158 * SECOND)
    log.dropped({"forged": 100}, 159 * SECOND)
    log.dropped({"forged": 101, "node-type": 1}, 160 * SECOND)
    assert len(caplog.records) == 3
