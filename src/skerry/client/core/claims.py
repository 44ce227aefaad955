"""The claims of a space: to answer requests, or to be the only client that changes objects.

The space sends each claim again on each connection, until the claim ends: released here, lost to
another client, or refused. The node reports the state of a claim. While there is no connection its
state is unknown, so it counts as requested.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skerry.client.core.received_requests import OnRequest
from skerry.errors import EncodeError, LimitExceeded, LocalProtocolError
from skerry.limits import CLAIM_COUNT_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.client import ClientConnection
from skerry.schema.model import StructType

_NUMBER_MAX: Final = 0xFFFFFFFF
"""Numbers of claims have 32 bits on the wire."""


class ClaimState(enum.StrEnum):
    """The state of a claim, from the worst to the best."""

    CLOSED = "closed"
    """It was released here, or the space is closed."""
    REFUSED = "refused"
    """The node does not permit it."""
    LOST = "lost"
    """Another client has taken it over."""
    ASKED = "asked"
    """The node has not reported its state yet, or the connection is lost."""
    STANDBY = "standby"
    """Another client holds it. This space holds it when that client gives it up."""
    HELD = "held"


_OVER: Final = frozenset({ClaimState.CLOSED, ClaimState.REFUSED, ClaimState.LOST})


@dataclass(eq=False, slots=True, kw_only=True)
class Claim:
    """A claim to the requests of a handler, to one object, or to all objects of a type."""

    type_: StructType
    handler: str | None = None
    """The name under which requests are answered; None for objects."""
    key: Any = None
    """The key of one object, as programs write it; None for all objects of the type."""
    canonical_key: bytes | None = None
    payload: bytes | None = None
    """One object with only its key set, encoded."""
    is_standby: bool = False
    """Whether to wait while another client holds it, instead of taking it over."""
    on_change: Callable[[], object]
    on_request: OnRequest | None = None
    """Called with each request that the node forwards."""
    number: int = 0
    state: ClaimState = ClaimState.ASKED
    reason: str = ""

    @property
    def identity(self) -> tuple[str, str | None, bytes | None]:
        """Type, handler and canonical key: a space has one claim for each."""
        return self.type_.name, self.handler, self.canonical_key

    def __str__(self) -> str:
        if self.handler is not None:
            return f"requests {self.type_.name}" + (f" as {self.handler}" if self.handler else "")
        if self.canonical_key is None:
            return f"all objects of {self.type_.name}"
        return f"{self.type_.name} {self.key!r}"


class Claims:
    """The claims that have not ended, in the order in which they were made."""

    def __init__(self) -> None:
        self._claims: dict[int, Claim] = {}
        self._by_identity: dict[tuple[str, str | None, bytes | None], Claim] = {}
        self._last_number = 0
        self._connection: ClientConnection | None = None

    def __len__(self) -> int:
        return len(self._claims)

    def begin(self, claims: Sequence[Claim], now_s: float) -> None:
        """Make claims: all of them or, if one is not possible, none.

        Raises LocalProtocolError if the space has one of them already, LimitExceeded if there are
        too many.
        """
        for claim in claims:
            if claim.identity in self._by_identity:
                error = LocalProtocolError(f"this space has already claimed {claim}")
                error.hint = "close the former claim first"
                raise error
        count = len(self._claims) + len(claims)
        if count > CLAIM_COUNT_MAX:
            raise LimitExceeded(what="count of claims", value=count, limit=CLAIM_COUNT_MAX)
        for claim in claims:
            claim.number = self._next_number()
            self._claims[claim.number] = self._by_identity[claim.identity] = claim
            self._send(claim, now_s)

    def release(self, claim: Claim, now_s: float) -> None:
        """Release a claim, without a call of its `on_change`."""
        if claim.number not in self._claims:
            return
        self._forget(claim)
        claim.state = ClaimState.CLOSED
        if self._connection is not None:
            message = internal_class("SkerryClaim")(
                number=claim.number, event=internal_class("SkerryClaimEvent")["release"]
            )
            self._connection.send_message(message, now_s)

    def service(self, type_name: str, handler: str) -> Claim | None:
        """The claim under which this space answers requests of a type, if there is one."""
        return self._by_identity.get((type_name, handler, None))

    # -- the connection

    def connected(self, connection: ClientConnection, now_s: float) -> None:
        """Send all claims on a new connection."""
        self._connection = connection
        for claim in list(self._claims.values()):
            self._send(claim, now_s)

    def disconnected(self) -> tuple[Callable[[], object], ...]:
        """The connection is lost. Returns the callbacks of claims whose state has changed."""
        self._connection = None
        changed = [c for c in self._claims.values() if c.state is not ClaimState.ASKED]
        for claim in changed:
            claim.state = ClaimState.ASKED
        return _callbacks(changed)

    def end(self) -> tuple[Callable[[], object], ...]:
        """End all claims, since the space is closed. Returns their callbacks."""
        self._connection = None
        changed = list(self._claims.values())
        for claim in changed:
            self._forget(claim)
            claim.state = ClaimState.CLOSED
        return _callbacks(changed)

    def claimed(self, message: Any) -> None:
        """Process a SkerryClaimed message, in which the node reports the state of a claim."""
        claim = self._claims.get(message.number or 0)
        if claim is None or message.state is None:
            # It was released here after the node sent this.
            return
        self._change(claim, ClaimState(message.state.label), message.reason or "")

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
            # A key of megabytes, which the node would reject.
            self._change(claim, ClaimState.REFUSED, str(error))

    def _change(self, claim: Claim, state: ClaimState, reason: str) -> None:
        if state in _OVER:
            self._forget(claim)
        claim.reason = reason
        if state is not claim.state:
            claim.state = state
            claim.on_change()

    def _forget(self, claim: Claim) -> None:
        del self._claims[claim.number]
        del self._by_identity[claim.identity]

    def _next_number(self) -> int:
        # Numbers are not reused soon: a message about a former claim may still arrive.
        self._last_number = self._last_number % _NUMBER_MAX + 1
        assert self._last_number not in self._claims
        return self._last_number


def _callbacks(claims: list[Claim]) -> tuple[Callable[[], object], ...]:
    """The callbacks of claims; a callback that several claims share is called once."""
    return tuple(dict.fromkeys(claim.on_change for claim in claims))
