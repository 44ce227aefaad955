"""Logs the events of a portal and its clients."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable

from skerry.protocol.machine import MachineEvent
from skerry.protocol.portal.portal_manager import (
    HoldReleased,
    PortalClientSeen,
    RequestMalformed,
    RequiredClientReady,
)
from skerry.protocol.portal.session_messages import (
    ManagerSilent,
    PortalLost,
    PortalOpened,
    PublicationsDropped,
)

log = logging.getLogger("skerry.portal")


def log_portal_events(events: Iterable[MachineEvent]) -> None:
    """Log each event, with its facts as fields."""
    for event in events:
        level, message = _line(event)
        if log.isEnabledFor(level):
            log.log(level, message, extra=dataclasses.asdict(event))


def _line(event: MachineEvent) -> tuple[int, str]:
    match event:
        case PortalClientSeen():
            return logging.DEBUG, "client of the portal seen"
        case RequestMalformed():
            return logging.WARNING, "malformed request to the manager of the portal"
        case RequiredClientReady():
            return logging.INFO, "required client is ready"
        case HoldReleased():
            return logging.INFO, "hold released"
        case PortalOpened(is_first=True):
            return logging.DEBUG, "connection to the portal works"
        case PortalOpened():
            return logging.INFO, "connection to the portal works again"
        case PortalLost():
            return logging.WARNING, "connection to the portal lost"
        case ManagerSilent():
            return logging.WARNING, "portal does not answer"
        case PublicationsDropped():
            return logging.WARNING, "too many publications wait; the oldest are dropped"
        case _:
            return logging.DEBUG, type(event).__name__
