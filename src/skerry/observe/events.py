"""Events of a node as log lines: what goes as it should quietly, what does not as a warning."""

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
    ConnectionTurnedAway,
    DefinitionRefused,
    TypeChanged,
)
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
from skerry.protocol.machine import MachineEvent

__all__ = ["note_events"]

_QUIET_ENDS: Final = ("goodbye", "lost")
"""Ends of connections that are nobody's fault. A program that is stopped just goes."""

log = logging.getLogger("skerry.node")


def note_events(events: Iterable[MachineEvent]) -> None:
    """Write a line for each; the facts of an event are the fields of its line."""
    for event in events:
        level, message = _line(event)
        if log.isEnabledFor(level):
            # `name` is what a record calls its logger.
            facts = {
                "client_name" if field.name == "name" else field.name: getattr(event, field.name)
                for field in dataclasses.fields(event)
            }
            log.log(level, message, extra=facts)


def _line(event: MachineEvent) -> tuple[int, str]:
    match event:
        case ClientConnected():
            return logging.DEBUG, "client came"
        case ClientDisconnected(reason="rejected"):
            return logging.WARNING, "client rejected"
        case ClientDisconnected(reason=reason):
            is_quiet = reason in _QUIET_ENDS
            return (logging.DEBUG, "client went") if is_quiet else (logging.WARNING, "client cut")
        case ConnectionTurnedAway():
            return logging.WARNING, "connection turned away"
        case ClientRefused():
            return logging.WARNING, "client refused"
        case DefinitionRefused():
            return logging.WARNING, "incompatible definition of a type refused"
        case TypeChanged():
            return logging.INFO, "definition of a type changed"
        case DefinitionConflict():
            return logging.WARNING, "somebody in the group defines a type otherwise"
        case MessagesGivenUp():
            return logging.WARNING, "messages of a type that nobody described are dropped"
        case UpdatesLost():
            return logging.WARNING, "updates of the group are lost"
        case StartUnknown():
            return logging.WARNING, "the start of a sender's stream is unknown"
        case CommunicationFailed():
            return logging.WARNING, "the network refuses"
        case SenderFound():
            return logging.INFO, "a sender of the group was found"
        case SenderRemoved():
            return logging.INFO, "a sender of the group is gone"
        case IdentityTaken() | Nagging() | OtherDialect() | SendersRefused() | TooLargeForJava():
            return logging.WARNING, "trouble in a multicast group"
        case _:
            return logging.DEBUG, type(event).__name__
