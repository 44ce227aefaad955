"""Logs the events of a node: expected ones on low levels, problems as warnings."""

from __future__ import annotations

import dataclasses
import enum
import logging
from collections.abc import Iterable
from typing import Final

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
from skerry.engine.services.picture import exclusion_text
from skerry.engine.system.events import Rejoining, SystemLeft
from skerry.protocol.discovery.events import LightSeed, NodesRefused, SeedIgnored
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    IdentityTaken,
    Nagging,
    OtherDialect,
    SenderFound,
    SenderInfo,
    SenderRemoved,
    SendersRefused,
    StartUnknown,
    TooLargeForJava,
    UpdatesLost,
)
from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.machine import Address, MachineEvent
from skerry.protocol.picture.events import (
    IncarnationEntered,
    LoopWasLate,
    NodeDead,
    PictureChanged,
    StateContradicts,
)

_QUIET_ENDS: Final = ("goodbye", "lost")
"""Reasons for which a connection ends in normal operation. A stopped program just disconnects."""

log = logging.getLogger("skerry.node")


def log_events(events: Iterable[MachineEvent]) -> None:
    """Log each event, with its facts as fields."""
    for event in events:
        level, message = _line(event)
        if log.isEnabledFor(level):
            log.log(level, message, extra=_facts(event))


def _facts(event: MachineEvent) -> dict[str, object]:
    match event:
        case NodeDead(entry=entry):
            reason, by = exclusion_text(entry.dead_reason), _hex(event.by)
            return {"node": entry.name, "id": _hex(entry.node), "reason": reason, "by": by}
        case PictureChanged(state=state):
            return {"sequence": state.sequence, "alive_count": len(state.alive())}
        case SystemLeft():
            return {"reason": exclusion_text(event.reason), "by": _hex(event.by)}
        case IncarnationEntered():
            return {"incarnation": _hex(event.incarnation_id)}
        case Rejoining():
            return {"id": _hex(event.node)}
        case LoopWasLate():
            return {"late_s": round(event.late_ns / 1e9, 3)}
        case NodesForgotten():
            ids = ", ".join(map(_hex, event.nodes))
            return {"client_name": event.client_name, "ids": ids}
        case _:
            # `name` is the logger in a log record.
            return {
                "client_name" if field.name == "name" else field.name: _fact(
                    getattr(event, field.name)
                )
                for field in dataclasses.fields(event)
            }


def _fact(value: object) -> object:
    """A value as people write it."""
    match value:
        case SenderInfo():
            name = value.application or f"application {value.application_id}"
            return f"{name} at {value.address}, sender {value.sender_id}"
        case Address():
            return value.text
        case enum.Enum():
            return value.value
        case _:
            return value


def _hex(number: int) -> str:
    return f"{number % 2**64:016x}"


def _line(event: MachineEvent) -> tuple[int, str]:
    match event:
        case ClientConnected():
            return logging.DEBUG, "client connected"
        case ClientDisconnected(reason="rejected"):
            return logging.WARNING, "client rejected"
        case ClientDisconnected(reason=reason):
            is_quiet = reason in _QUIET_ENDS
            level = logging.DEBUG if is_quiet else logging.WARNING
            return level, "client disconnected" if is_quiet else "client disconnected by the node"
        case ConnectionRejected():
            return logging.WARNING, "connection rejected"
        case ClientRefused():
            return logging.WARNING, "operation of a client rejected"
        case DefinitionRefused():
            return logging.WARNING, "incompatible definition of a type refused"
        case TypeChanged():
            return logging.INFO, "definition of a type changed"
        case DefinitionConflict():
            return logging.WARNING, "a type has another definition in the group"
        case MessagesGivenUp():
            return logging.WARNING, "messages of a type without a description are dropped"
        case UpdatesLost():
            return logging.WARNING, "updates of the group are lost"
        case StartUnknown():
            return logging.WARNING, "the start of a sender's stream is unknown"
        case CommunicationFailed():
            return logging.WARNING, "sending to the group failed"
        case SenderFound():
            return logging.INFO, "a sender of the group was found"
        case SenderRemoved():
            return logging.INFO, "a sender of the group was removed"
        case IdentityTaken():
            return (
                logging.WARNING,
                "Java programs confuse this sender with another one of the group",
            )
        case Nagging():
            return logging.WARNING, "too many repair requests: the group is not received any more"
        case OtherDialect():
            return logging.WARNING, "a sender of the group uses the other dialect and is ignored"
        case SendersRefused():
            return logging.WARNING, "the group has too many senders, so one is ignored"
        case TooLargeForJava():
            return logging.WARNING, "an update is too large for Java programs of the group"
        case NodeDead(entry=entry) if entry.dead_reason == ExclusionReason.ORDERED:
            return logging.INFO, "a node of the system stopped"
        case NodeDead(entry=entry, by=by) if entry.node == by:
            return logging.WARNING, "a node of the system has excluded this node"
        case NodeDead():
            return logging.WARNING, "a node of the system is excluded"
        case PictureChanged():
            return logging.DEBUG, "the picture of the system changed"
        case IncarnationEntered(is_detached=True):
            return logging.WARNING, "the light node is cut off from the full nodes"
        case IncarnationEntered(is_formed=True):
            return logging.INFO, "the node has formed its system"
        case IncarnationEntered():
            return logging.INFO, "the node has found its system"
        case SystemLeft():
            return logging.WARNING, "the system has excluded this node"
        case Rejoining():
            return logging.INFO, "the node joins the system again"
        case LoopWasLate():
            return logging.WARNING, "the node was late, so it declares no other node dead for now"
        case LightSeed():
            return logging.WARNING, "a light node is a seed of this light node, and is ignored"
        case SeedIgnored():
            return logging.WARNING, "a seed is not an address of IP with a port, and is ignored"
        case NodesRefused():
            return logging.WARNING, "the system has too many nodes, so further ones are ignored"
        case StateContradicts():
            return logging.WARNING, "a state of the system contradicts itself"
        case NodesForgotten():
            return logging.INFO, "dead nodes are forgotten"
        case _:
            return logging.DEBUG, type(event).__name__
