"""Events as log lines."""

from __future__ import annotations

import logging

import pytest

from skerry.engine.events import (
    ClientCame,
    ClientRefused,
    ClientWent,
    TypeAdopted,
    TypeConflict,
)
from skerry.observe.events import note_events
from skerry.protocol.machine import Event


@pytest.mark.parametrize(
    ("event", "level", "message"),
    [
        (ClientCame(client_id=2, name="ann", origin="unix"), "DEBUG", "client came"),
        (ClientWent(client_id=2, name="ann", reason="goodbye"), "DEBUG", "client went"),
        (ClientWent(client_id=2, name="ann", reason="lost"), "DEBUG", "client went"),
        (ClientWent(client_id=2, name="ann", reason="slow"), "WARNING", "client cut"),
        (
            ClientRefused(client_id=2, name="ann", what="publish", detail="no"),
            "WARNING",
            "client refused",
        ),
        (TypeConflict(type_name="Boat", detail="id"), "WARNING", "two definitions of a type"),
        (
            TypeAdopted(type_name="Boat", object_count=3),
            "INFO",
            "stored objects follow a new definition of their type",
        ),
        (Event(), "DEBUG", "Event"),
    ],
)
def test_event_becomes_a_line_of_its_weight(
    event: Event, level: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "skerry"):
        note_events([event])
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (level, message)


def test_facts_of_an_event_are_fields_of_its_line(caplog: pytest.LogCaptureFixture) -> None:
    note_events([ClientWent(client_id=7, name="ann", reason="slow", detail="9 bytes waited")])
    facts = vars(caplog.records[0])
    assert facts["name"] == "skerry.node"
    assert (facts["client_id"], facts["client_name"]) == (7, "ann")
    assert (facts["reason"], facts["detail"]) == ("slow", "9 bytes waited")


def test_lines_that_nobody_wants_are_not_made(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "skerry"):
        note_events([ClientWent(client_id=7, name="ann", reason="slow")])
    assert caplog.records == []
