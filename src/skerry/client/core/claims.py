"""What a space claims: to answer requests, or to be the only one that changes objects.

A claim is made anew on each connection, until it is over: given up here, or lost to another, or
refused. The node tells how it stands. On a lost connection nobody knows, so it is asked for again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skerry.client.core.request_calls import Taker
from skerry.errors import EncodeError, LimitExceeded, LocalProtocolError
from skerry.limits import CLAIM_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.schema.model import StructType

__all__ = ["Claim", "ClaimState", "Claims"]

_NUMBER_MAX: Final = 0xFFFFFFFF
"""Numbers of claims have 32 bits on the wire."""


class ClaimState(enum.StrEnum):
    """How a claim stands, from the worst to the best."""

    CLOSED = "closed"
    """It was given up here, or the space is over."""
    REFUSED = "refused"
    """The node does not permit it."""
    LOST = "lost"
    """Somebody else has taken it."""
    ASKED = "asked"
    """The node has not told yet how it stands, or the connection is lost."""
    STANDBY = "standby"
    """Somebody else holds it; it is ours when nobody does."""
    HELD = "held"


_OVER: Final = frozenset({ClaimState.CLOSED, ClaimState.REFUSED, ClaimState.LOST})


@dataclass(eq=False, slots=True, kw_only=True)
class Claim:
    """One thing that only one client at a time may do."""

    type_: StructType
    handler: str | None = None
    """The name under which requests are answered; None for objects."""
    key: Any = None
    """Of one object, as programs write it."""
    place: bytes | None = None
    """Of one object: its canonical key."""
    payload: bytes | None = None
    """Of one object: nothing but its key, encoded."""
    is_standby: bool = False
    """Whether others go first."""
    told: Callable[[], object]
    """Called when it stands otherwise than before."""
    take: Taker | None = None
    """Called with each request that is given to us."""
    number: int = 0
    state: ClaimState = ClaimState.ASKED
    reason: str = ""
    """Why it was lost or refused."""

    @property
    def identity(self) -> tuple[str, str | None, bytes | None]:
        """What tells it from others."""
        return self.type_.name, self.handler, self.place

    def __str__(self) -> str:
        if self.handler is not None:
            return f"requests {self.type_.name}" + (f" as {self.handler}" if self.handler else "")
        if self.place is None:
            return f"all objects of {self.type_.name}"
        return f"{self.type_.name} {self.key!r}"


class Claims:
    """All that are not over, in the order in which they were made."""

    def __init__(self) -> None:
        self._claims: dict[int, Claim] = {}
        self._places: dict[tuple[str, str | None, bytes | None], Claim] = {}
        self._last_number = 0
        self._connection: ClientConnection | None = None

    def __len__(self) -> int:
        return len(self._claims)

    def begin(self, claims: Sequence[Claim], now_s: float) -> None:
        """Some more, all or none of them."""
        for claim in claims:
            if claim.identity in self._places:
                error = LocalProtocolError(f"this space claims {claim} already")
                error.hint = "close the former claim first"
                raise error
        count = len(self._claims) + len(claims)
        if count > CLAIM_COUNT_MAX:
            raise LimitExceeded(what="count of claims", value=count, limit=CLAIM_COUNT_MAX)
        for claim in claims:
            claim.number = self._next_number()
            self._claims[claim.number] = self._places[claim.identity] = claim
            self._send(claim, now_s)

    def release(self, claim: Claim, now_s: float) -> None:
        """Give one up; nobody is told, since it is our own wish."""
        if claim.number not in self._claims:
            return
        self._forget(claim)
        claim.state = ClaimState.CLOSED
        if self._connection is not None:
            message = internal_class("SkerryClaim")(
                number=claim.number, event=internal_class("SkerryClaimEvent")["release"]
            )
            self._connection.send_message(message, now_s)

    def server(self, type_name: str, handler: str) -> Claim | None:
        """The one under which requests of a type are answered here."""
        return self._places.get((type_name, handler, None))

    # -- the connection

    def connected(self, connection: ClientConnection, now_s: float) -> None:
        """Make all of them anew."""
        self._connection = connection
        for claim in list(self._claims.values()):
            self._send(claim, now_s)

    def disconnected(self) -> tuple[Callable[[], object], ...]:
        """The node does not know them any more; gives who is to be told."""
        self._connection = None
        changed = [c for c in self._claims.values() if c.state is not ClaimState.ASKED]
        for claim in changed:
            claim.state = ClaimState.ASKED
        return _each_once(changed)

    def end(self) -> tuple[Callable[[], object], ...]:
        """There will be no other connection; gives who is to be told."""
        self._connection = None
        changed = list(self._claims.values())
        for claim in changed:
            self._forget(claim)
            claim.state = ClaimState.CLOSED
        return _each_once(changed)

    def stands(self, message: Any) -> None:
        """The node tells how one stands, by a SkerryClaimed."""
        claim = self._claims.get(message.number or 0)
        if claim is None or message.state is None:
            # One that was given up here, while this was under way.
            return
        self._change(claim, ClaimState(message.state.label), message.reason or "")

    # -- inside

    def _send(self, claim: Claim, now_s: float) -> None:
        connection = self._connection
        if connection is None:
            return
        event = "standby" if claim.is_standby else "claim"
        message = internal_class("SkerryClaim")(
            number=claim.number,
            event=internal_class("SkerryClaimEvent")[event],
            typeName=claim.type_.name,
            handler=claim.handler,
            object=claim.payload,
        )
        try:
            connection.describe(claim.type_, now_s)
            connection.send_message(message, now_s)
        except EncodeError as error:
            # A key of megabytes, which the node would not take.
            self._change(claim, ClaimState.REFUSED, str(error))

    def _change(self, claim: Claim, state: ClaimState, reason: str) -> None:
        if state in _OVER:
            self._forget(claim)
        claim.reason = reason
        if state is not claim.state:
            claim.state = state
            claim.told()

    def _forget(self, claim: Claim) -> None:
        del self._claims[claim.number]
        del self._places[claim.identity]

    def _next_number(self) -> int:
        # A number is not used again soon: what the node says of a former claim may be under way.
        self._last_number = self._last_number % _NUMBER_MAX + 1
        assert self._last_number not in self._claims
        return self._last_number


def _each_once(claims: list[Claim]) -> tuple[Callable[[], object], ...]:
    """Who shares several claims is told of them together."""
    return tuple(dict.fromkeys(claim.told for claim in claims))
