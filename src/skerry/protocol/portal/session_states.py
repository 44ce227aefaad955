"""The states of a client's connection to a portal, as a transition table."""

from __future__ import annotations

import enum
from typing import Final

from skerry.protocol.transitions import TransitionTable


class SessionState(enum.Enum):
    """What a client waits for. Publications are kept in all states but OPEN."""

    ASKING = "The manager was asked for the sockets of the router."
    HELD = "The sockets are connected; the manager is asked about the hold."
    SETTLING = "The hold is released; the client waits until the router knows its subscriptions."
    OPEN = "Publications are sent."
    WAITING = "The connection was lost; the client waits before it asks again."
    CLOSED = "The client was closed."


class SessionEvent(enum.Enum):
    ANSWERED = "manager named the sockets"
    RELEASED = "manager answered that the hold is released"
    SETTLED = "subscriptions are known, or the wait for that timed out"
    LOST = "connection lost, or no answer in time"
    DELAY_OVER = "delay over"
    CLOSED = "closed by the program"


_S = SessionState
_E = SessionEvent

SESSION_TRANSITIONS: Final[TransitionTable[SessionState, SessionEvent]] = TransitionTable(
    title="Client of a portal",
    start=_S.ASKING,
    transitions=(
        (_S.ASKING, _E.ANSWERED, _S.HELD),
        (_S.ASKING, _E.LOST, _S.WAITING),
        (_S.ASKING, _E.CLOSED, _S.CLOSED),
        (_S.HELD, _E.RELEASED, _S.SETTLING),
        (_S.HELD, _E.LOST, _S.WAITING),
        (_S.HELD, _E.CLOSED, _S.CLOSED),
        (_S.SETTLING, _E.SETTLED, _S.OPEN),
        (_S.SETTLING, _E.LOST, _S.WAITING),
        (_S.SETTLING, _E.CLOSED, _S.CLOSED),
        (_S.OPEN, _E.LOST, _S.WAITING),
        (_S.OPEN, _E.CLOSED, _S.CLOSED),
        (_S.WAITING, _E.DELAY_OVER, _S.ASKING),
        (_S.WAITING, _E.CLOSED, _S.CLOSED),
    ),
)
