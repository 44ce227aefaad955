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

_QUIET_ENDS: Final = ("goodbye", "lost")
"""Reasons for which a connection ends in normal operation. A stopped program just disconnects."""

log = logging.getLogger("skerry.node")


def log_events(events: Iterable[MachineEvent]) -> None:
    """Log each event, with its facts as fields."""
    for event in events:
        level, message = _line(event)
        if log.isEnabledFor(level):
            # `name` is the logger in a log record.
            facts = {
                "client_name" if field.name == "name" else field.name: getattr(event, field.name)
                for field in dataclasses.fields(event)
            }
            log.log(level, message, extra=facts)


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
        case ConnectionTurnedAway():
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
        case _:
            return logging.DEBUG, type(event).__name__
