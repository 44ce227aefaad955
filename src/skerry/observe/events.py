"""Logs the events of a node: expected ones on low levels, problems as warnings."""

from __future__ import annotations

import dataclasses
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
    SenderRemoved,
    SendersRefused,
    StartUnknown,
    TooLargeForJava,
    UpdatesLost,
)
from skerry.protocol.exclusion import ExclusionReason
from skerry.protocol.machine import MachineEvent
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
            reason = exclusion_text(entry.dead_reason)
            return {"node": entry.name, "id": _hex(entry.node), "reason": reason}
        case PictureChanged(state=state):
            elected = state.entry(state.elected_id)
            return {
                "sequence": state.sequence,
                "alive": ", ".join(one.name for one in state.alive()),
                "elected": "" if elected is None else elected.name,
            }
        case SystemLeft():
            return {"reason": exclusion_text(event.reason), "by": _hex(event.by)}
        case IncarnationEntered():
            return {"incarnation": _hex(event.incarnation_id), "is_formed": event.is_formed}
        case Rejoining():
            return {"id": _hex(event.node)}
        case _:
            # `name` is the logger in a log record.
            return {
                "client_name" if field.name == "name" else field.name: getattr(event, field.name)
                for field in dataclasses.fields(event)
            }


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
        case IdentityTaken() | Nagging() | OtherDialect() | SendersRefused() | TooLargeForJava():
            return logging.WARNING, "problem in a multicast group"
        case NodeDead(entry=entry) if entry.dead_reason == ExclusionReason.ORDERED:
            return logging.INFO, "a node of the system stopped"
        case NodeDead():
            return logging.WARNING, "a node of the system is excluded"
        case PictureChanged():
            return logging.INFO, "the picture of the system changed"
        case IncarnationEntered():
            return logging.INFO, "the node entered the system"
        case SystemLeft():
            return logging.WARNING, "the system has excluded this node"
        case Rejoining():
            return logging.INFO, "the node joins the system again"
        case LoopWasLate():
            return logging.WARNING, "the node was late, so it declares no other node dead for now"
        case StateContradicts():
            return logging.WARNING, "a state of the system contradicts itself"
        case LightSeed() | SeedIgnored() | NodesRefused():
            return logging.WARNING, "problem in finding the nodes of the system"
        case NodesForgotten():
            return logging.INFO, "dead nodes are forgotten"
        case _:
            return logging.DEBUG, type(event).__name__
