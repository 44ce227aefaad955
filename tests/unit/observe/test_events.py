"""Events as log lines."""

from __future__ import annotations

import logging

import pytest

from skerry.engine.carriage.distributor.events import DefinitionConflict, MessagesGivenUp
from skerry.engine.events import (
    ClientConnected,
    ClientDisconnected,
    ClientRefused,
    ConnectionRejected,
    DefinitionRefused,
    TypeChanged,
)
from skerry.observe.events import log_events
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    Direction,
    IdentityTaken,
    LossReason,
    RemovalReason,
    SenderFound,
    SenderInfo,
    SenderRemoved,
    UpdatesLost,
)
from skerry.protocol.machine import MachineEvent
from skerry.protocol.picture.events import StateContradicts

SENDER = SenderInfo(address="10.0.0.1", sender_id=61234, start=1, application_id=2)


@pytest.mark.parametrize(
    ("event", "level", "message"),
    [
        (ClientConnected(client_id=2, name="ann", origin="unix"), "DEBUG", "client connected"),
        (
            ClientDisconnected(client_id=2, name="ann", reason="goodbye"),
            "DEBUG",
            "client disconnected",
        ),
        (
            ConnectionRejected(host="10.0.0.1", reason="too many"),
            "WARNING",
            "connection rejected",
        ),
        (
            ClientDisconnected(client_id=2, name="ann", reason="lost"),
            "DEBUG",
            "client disconnected",
        ),
        (
            ClientDisconnected(client_id=2, name="ann", reason="slow"),
            "WARNING",
            "client disconnected by the node",
        ),
        (
            ClientDisconnected(client_id=2, name="ann", reason="rejected"),
            "WARNING",
            "client rejected",
        ),
        (
            ClientRefused(client_id=2, name="ann", what="publish", detail="no"),
            "WARNING",
            "operation of a client rejected",
        ),
        (
            DefinitionRefused(type_name="Boat", detail="id"),
            "WARNING",
            "incompatible definition of a type refused",
        ),
        (
            TypeChanged(type_name="Boat", client_id=2, name="ann", added=("3: string note",)),
            "INFO",
            "definition of a type changed",
        ),
        (
            DefinitionConflict(type_name="Boat", sender="x", detail="id"),
            "WARNING",
            "a type has another definition in the group",
        ),
        (
            MessagesGivenUp(type_name="Boat", message_count=3),
            "WARNING",
            "messages of a type without a description are dropped",
        ),
        (
            UpdatesLost(sender=SENDER, first_seq=1, stop_seq=3, reason=LossReason.NAK),
            "WARNING",
            "updates of the group are lost",
        ),
        (
            CommunicationFailed(group="g", port=1, direction=Direction.SEND, reason="no"),
            "WARNING",
            "sending to the group failed",
        ),
        (
            SenderFound(group="g", port=1, sender=SENDER),
            "INFO",
            "a sender of the group was found",
        ),
        (
            SenderRemoved(group="g", port=1, sender=SENDER, reason=RemovalReason.SILENT),
            "INFO",
            "a sender of the group was removed",
        ),
        (
            IdentityTaken(group="g", port=1, sender=SENDER),
            "WARNING",
            "problem in a multicast group",
        ),
        (
            StateContradicts(by=7),
            "WARNING",
            "a state of the system contradicts itself",
        ),
        (MachineEvent(), "DEBUG", "MachineEvent"),
    ],
)
def test_event_is_logged_at_its_level(
    event: MachineEvent, level: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "skerry"):
        log_events([event])
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == (level, message)


def test_facts_of_an_event_are_fields_of_its_line(caplog: pytest.LogCaptureFixture) -> None:
    log_events(
        [ClientDisconnected(client_id=7, name="ann", reason="slow", detail="9 bytes waited")]
    )
    facts = vars(caplog.records[0])
    assert facts["name"] == "skerry.node"
    assert (facts["client_id"], facts["client_name"]) == (7, "ann")
    assert (facts["reason"], facts["detail"]) == ("slow", "9 bytes waited")


def test_lines_below_the_level_are_not_formatted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "skerry"):
        log_events([ClientDisconnected(client_id=7, name="ann", reason="slow")])
    assert caplog.records == []
