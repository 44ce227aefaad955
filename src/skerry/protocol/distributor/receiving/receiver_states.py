"""The states of a receiver, as a transition table.

Missing datagrams are not a state: a receiver delivers what it can while it requests what is
missing.
"""

from __future__ import annotations

import enum
from typing import Final

from skerry.protocol.transitions import TransitionTable


class ReceiverState(enum.Enum):
    """The state of the stream of one sender."""

    UNSYNCHRONISED = "The number with which the stream begins is not known; nothing is kept."
    SEARCHING = "The sender is asked where the stream begins; received datagrams wait."
    DELIVERING = "Datagrams are delivered in order; those after a missing one wait."
    STOPPED = "A datagram is lost, and the loss policy is to stop; later datagrams wait."


class ReceiverEvent(enum.Enum):
    START_KNOWN = "first number known"
    SEARCH_BEGUN = "first number must be asked for"
    START_FOUND = "sender answered, or gave no answer"
    LOSS = "loss with the policy to stop"
    LOSS_REPAIRED = "lost datagram received"
    UNSUBSCRIBED = "last subscription ended"


_S = ReceiverState
_E = ReceiverEvent

RECEIVER_TRANSITIONS: Final[TransitionTable[ReceiverState, ReceiverEvent]] = TransitionTable(
    title="Receiver of the distributor",
    start=_S.UNSYNCHRONISED,
    transitions=(
        (_S.UNSYNCHRONISED, _E.START_KNOWN, _S.DELIVERING),
        (_S.UNSYNCHRONISED, _E.SEARCH_BEGUN, _S.SEARCHING),
        (_S.UNSYNCHRONISED, _E.UNSUBSCRIBED, _S.UNSYNCHRONISED),
        (_S.SEARCHING, _E.START_FOUND, _S.DELIVERING),
        (_S.SEARCHING, _E.UNSUBSCRIBED, _S.UNSYNCHRONISED),
        (_S.DELIVERING, _E.LOSS, _S.STOPPED),
        (_S.DELIVERING, _E.UNSUBSCRIBED, _S.UNSYNCHRONISED),
        (_S.STOPPED, _E.LOSS_REPAIRED, _S.DELIVERING),
        (_S.STOPPED, _E.UNSUBSCRIBED, _S.UNSYNCHRONISED),
    ),
)
