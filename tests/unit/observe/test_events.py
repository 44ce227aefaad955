"""Events as log lines."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from skerry.engine.carriage.distributor.events import DefinitionConflict, MessagesGivenUp
from skerry.engine.events import (
    ClientConnected,
    ClientDisconnected,
    ClientRefused,
    ConnectionRejected,
    DefinitionRefused,
    NodesForgotten,
    TypeChanged,
)
from skerry.observe.events import log_events
from skerry.protocol.discovery.events import LightSeed, NodesRefused, SeedIgnored
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    Direction,
    IdentityTaken,
    LossReason,
    Nagging,
    OtherDialect,
    RemovalReason,
    SenderFound,
    SenderInfo,
    SenderRemoved,
    SendersRefused,
    TooLargeForJava,
    UpdatesLost,
)
from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.machine import Address, MachineEvent
from skerry.protocol.picture.entries import NodeEntry
from skerry.protocol.picture.events import (
    IncarnationEntered,
    LoopWasLate,
    NodeDead,
    StateContradicts,
)

SENDER = SenderInfo(address="10.0.0.1", sender_id=61234, start=1, application_id=2)


def dead(*, by: int, reason: int = ExclusionReason.SILENT) -> NodeDead:
    address = Address("10.0.0.1", 26660)
    entry = NodeEntry(node=1, name="quay", type_id=1, control=address, data=address)
    return NodeDead(entry=replace(entry, is_dead=True, dead_reason=reason), by=by)


def entered(*, is_formed: bool = False, is_detached: bool = False) -> IncarnationEntered:
    return IncarnationEntered(incarnation_id=1, is_formed=is_formed, is_detached=is_detached)


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
            "Java programs confuse this sender with another one of the group",
        ),
        (
            SendersRefused(group="g", port=1, sender=SENDER),
            "WARNING",
            "the group has too many senders, so one is ignored",
        ),
        (
            OtherDialect(group="g", port=1, address="10.0.0.1"),
            "WARNING",
            "a sender of the group uses the other dialect and is ignored",
        ),
        (
            Nagging(group="g", port=1, request_count=5, duration_ms=1),
            "WARNING",
            "too many repair requests: the group is not received any more",
        ),
        (
            TooLargeForJava(subject="/a", size=5, limit=4),
            "WARNING",
            "an update is too large for Java programs of the group",
        ),
        (
            LightSeed(address=Address("::1", 26660)),
            "WARNING",
            "a light node is a seed of this light node, and is ignored",
        ),
        (
            SeedIgnored(address=Address("a", 1)),
            "WARNING",
            "a seed is not an address of IP with a port, and is ignored",
        ),
        (
            NodesRefused(limit=1),
            "WARNING",
            "the system has too many nodes, so further ones are ignored",
        ),
        (dead(by=2), "WARNING", "a node of the system is excluded"),
        (dead(by=1), "WARNING", "a node of the system has excluded this node"),
        (dead(by=1, reason=ExclusionReason.ORDERED), "INFO", "a node of the system stopped"),
        (entered(is_formed=True), "INFO", "the node has formed its system"),
        (entered(), "INFO", "the node has found its system"),
        (
            entered(is_formed=True, is_detached=True),
            "WARNING",
            "the light node is cut off from the full nodes",
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


@pytest.mark.parametrize(
    ("event", "facts"),
    [
        (
            SenderRemoved(group="g", port=1, sender=SENDER, reason=RemovalReason.SILENT),
            {"sender": "application 2 at 10.0.0.1, sender 61234", "reason": "silent"},
        ),
        (
            SenderFound(group="g", port=1, sender=replace(SENDER, application="crane")),
            {"sender": "crane at 10.0.0.1, sender 61234"},
        ),
        (LightSeed(address=Address("::1", 26660)), {"address": "[::1]:26660"}),
        (SeedIgnored(address=Address("10.0.0.1", 5)), {"address": "10.0.0.1:5"}),
        (
            dead(by=-2),
            {"node": "quay", "id": "0000000000000001", "by": "fffffffffffffffe"},
        ),
        (LoopWasLate(late_ns=1_234_567_890), {"late_s": 1.235}),
        (
            NodesForgotten(nodes=(-1, 5), client_name="ann"),
            {"ids": "ffffffffffffffff, 0000000000000005", "client_name": "ann"},
        ),
    ],
)
def test_facts_are_shown_as_people_write_them(
    event: MachineEvent, facts: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "skerry"):
        log_events([event])
    shown = vars(caplog.records[0])
    assert {name: shown[name] for name in facts} == facts


def test_lines_below_the_level_are_not_formatted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "skerry"):
        log_events([ClientDisconnected(client_id=7, name="ann", reason="slow")])
    assert caplog.records == []
