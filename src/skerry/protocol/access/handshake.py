"""The handshake of a connection between a client and a node, as transition tables.

The two ends have different states, because each knows only what it has received. `STAGES` maps them
to the four stages that a node publishes in `DotsClient`.
"""

from __future__ import annotations

import enum
from typing import Final

from skerry.protocol.transitions import TransitionTable


class ConnectionStage(enum.Enum):
    """The progress of a connection; the numbers are the tags of DotsConnectionState."""

    CONNECTING = 1
    EARLY_SUBSCRIBE = 2
    CONNECTED = 3
    CLOSED = 5


class HandshakeState(enum.Enum):
    """The state of one end of a connection."""

    AWAITING_HELLO = "The client waits for the hello of the node."
    AWAITING_RESPONSE = "The client has introduced itself and waits to be accepted."
    AWAITING_CONNECT = "The node waits for the client to introduce itself, or decides about it."
    EARLY_SUBSCRIBE = "The client is accepted and joins what it needs before it starts."
    PRELOADING = "The client has joined everything; the node sends the cached objects."
    CONNECTED = "The handshake is complete."
    CLOSED = "Nothing more is sent or read."


class HandshakeEvent(enum.Enum):
    """An event that changes the state of a connection."""

    HELLO = "hello received"
    ACCEPTED = "accepted"
    ACCEPTED_WITH_PRELOAD = "accepted with preload"
    REJECTED = "rejected"
    JOINS_FINISHED = "joins finished"
    PRELOAD_FINISHED = "preload finished"
    CLOSED = "closed by either end"


HandshakeTable = TransitionTable[HandshakeState, HandshakeEvent]

_S = HandshakeState
_E = HandshakeEvent

CLIENT_HANDSHAKE: Final[HandshakeTable] = TransitionTable(
    title="Handshake of a client",
    start=_S.AWAITING_HELLO,
    transitions=(
        (_S.AWAITING_HELLO, _E.HELLO, _S.AWAITING_RESPONSE),
        (_S.AWAITING_HELLO, _E.CLOSED, _S.CLOSED),
        (_S.AWAITING_RESPONSE, _E.ACCEPTED, _S.CONNECTED),
        (_S.AWAITING_RESPONSE, _E.ACCEPTED_WITH_PRELOAD, _S.EARLY_SUBSCRIBE),
        (_S.AWAITING_RESPONSE, _E.REJECTED, _S.CLOSED),
        (_S.AWAITING_RESPONSE, _E.CLOSED, _S.CLOSED),
        (_S.EARLY_SUBSCRIBE, _E.PRELOAD_FINISHED, _S.CONNECTED),
        (_S.EARLY_SUBSCRIBE, _E.CLOSED, _S.CLOSED),
        (_S.CONNECTED, _E.CLOSED, _S.CLOSED),
        (_S.CLOSED, _E.CLOSED, _S.CLOSED),
    ),
)

SERVER_HANDSHAKE: Final[HandshakeTable] = TransitionTable(
    title="Handshake of a node",
    start=_S.AWAITING_CONNECT,
    transitions=(
        (_S.AWAITING_CONNECT, _E.ACCEPTED, _S.CONNECTED),
        (_S.AWAITING_CONNECT, _E.ACCEPTED_WITH_PRELOAD, _S.EARLY_SUBSCRIBE),
        (_S.AWAITING_CONNECT, _E.REJECTED, _S.CLOSED),
        (_S.AWAITING_CONNECT, _E.CLOSED, _S.CLOSED),
        (_S.EARLY_SUBSCRIBE, _E.JOINS_FINISHED, _S.PRELOADING),
        (_S.EARLY_SUBSCRIBE, _E.CLOSED, _S.CLOSED),
        (_S.PRELOADING, _E.PRELOAD_FINISHED, _S.CONNECTED),
        (_S.PRELOADING, _E.CLOSED, _S.CLOSED),
        (_S.CONNECTED, _E.CLOSED, _S.CLOSED),
        (_S.CLOSED, _E.CLOSED, _S.CLOSED),
    ),
)

STAGES: Final[dict[HandshakeState, ConnectionStage]] = {
    _S.AWAITING_HELLO: ConnectionStage.CONNECTING,
    _S.AWAITING_RESPONSE: ConnectionStage.CONNECTING,
    _S.AWAITING_CONNECT: ConnectionStage.CONNECTING,
    _S.EARLY_SUBSCRIBE: ConnectionStage.EARLY_SUBSCRIBE,
    _S.PRELOADING: ConnectionStage.EARLY_SUBSCRIBE,
    _S.CONNECTED: ConnectionStage.CONNECTED,
    _S.CLOSED: ConnectionStage.CLOSED,
}
