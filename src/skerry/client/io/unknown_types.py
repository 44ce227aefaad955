"""Warnings about subscriptions to types that the node does not know, which may be misspelled."""

from __future__ import annotations

import logging
from typing import Final

from skerry.client.io.session import Session
from skerry.errors import Disconnected, RequestTimedOut
from skerry.suggestions import nearest

_TYPES_S_MAX: Final = 10.0
"""How long to wait for the types of the node before a warning is left out."""

log = logging.getLogger(__name__)


def warn_of_unknown(session: Session, what: object) -> None:
    """Log a warning, soon, if `what` is the name of a type that the node does not know.

    A program that has asked for the type itself is not warned.
    """
    if not isinstance(what, str) or what.startswith("/") or session.core.types.class_named(what):
        return
    asked = session.asked_names
    if asked is None or (asked and what not in asked):
        session.begin_task(_warn(session, what))


async def _warn(session: Session, name: str) -> None:
    before = session.asked_names
    try:
        await session.request_types((), _TYPES_S_MAX)
    except (RequestTimedOut, Disconnected):
        return
    finally:
        session.asked_names = before
    types = session.core.types
    if types.class_named(name) is None:
        guess = nearest(name, types.by_name)
        advice = f" (did you mean {guess}?)" if guess else ""
        text = "the node does not know %s yet%s; its subscription waits for the first object"
        log.warning(text, name, advice)
