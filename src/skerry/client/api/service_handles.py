"""What a program claims by a space: a service that answers requests, and objects of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from skerry.client.api.arguments import check_class
from skerry.client.api.serving import RequestHandling, check_handler
from skerry.client.api.subscription import check_callback
from skerry.client.core.claims import Claim, ClaimState
from skerry.client.io.session import Session
from skerry.closing import Closing
from skerry.errors import Disconnected, Refused
from skerry.objects.base import Struct
from skerry.runtime.clock import monotonic_ns

__all__ = ["ClaimHandle", "Doing", "Ownership", "Service", "own", "serve"]

H = TypeVar("H", bound="ClaimHandle")

Doing: TypeAlias = Callable[[Callable[[], None]], object]
"""How something is done on the loop of a space that may be closed by then."""
_WORST_FIRST: Final = list(ClaimState)


class ClaimHandle(Closing):
    """What is claimed, until `close` or until it is lost."""

    def __init__(self, session: Session, cls: type[Struct], do: Doing) -> None:
        self.type_name = cls.descriptor.name
        """The type of the requests or objects."""
        self._session = session
        self._do = do
        self._claims: tuple[Claim, ...] = ()
        self._is_closed = False

    @property
    def state(self) -> ClaimState:
        """How the claim stands; of several, the one that is worst off."""
        if self._is_closed:
            return ClaimState.CLOSED
        states = (claim.state for claim in self._claims)
        return min(states, key=_WORST_FIRST.index, default=ClaimState.ASKED)

    @property
    def is_held(self) -> bool:
        """Whether all of it is held."""
        return self.state is ClaimState.HELD

    @property
    def reason(self) -> str:
        """Why it, or a part of it, was lost or refused."""
        return next((claim.reason for claim in self._claims if claim.reason), "")

    def close(self) -> None:
        """Give it up; the first who stands by holds it then."""
        self._is_closed = True
        self._do(self._release)

    def __repr__(self) -> str:
        count = len(self._claims)
        what = self._claims[0] if count == 1 else f"{count} objects of {self.type_name}"
        return f"<{self.state}: {what}>"

    def _release(self) -> None:
        self._session.core.release_claims(self._claims, monotonic_ns())
        self._session.carry()

    async def open(self, claims: Iterable[Claim], timeout: float | None) -> None:
        """On the loop, until the node has told how all of them stand; Refused if it refuses any."""
        self._claims = tuple(claims)
        self._session.carry()
        try:
            await self._session.wait(
                lambda: all(claim.state is not ClaimState.ASKED for claim in self._claims),
                timeout,
                f"the answer to the claim of {self._claims[0]}",
            )
            self._check()
        except BaseException:
            self._is_closed = True
            self._release()
            raise

    def _check(self) -> None:
        if self._session.core.failure is not None:
            raise Disconnected(self._session.core.failure)
        refused = [claim for claim in self._claims if claim.state is ClaimState.REFUSED]
        if refused:
            rest = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
            raise Refused(f"the node refused the claim {refused[0].reason or refused[0]}{rest}")


class Service(ClaimHandle):
    """Requests of a type that this space answers, while it holds the claim to.

    `close` ends that. What is under way then is still answered.
    """

    name: str = ""
    """Under which they are answered."""


class Ownership(ClaimHandle):
    """Objects that nobody else may change, while this space holds the claim to them."""

    @property
    def held(self) -> frozenset[Any]:
        """Keys of the objects that are held; none where all of a type are claimed."""
        return frozenset(
            claim.key
            for claim in self._claims
            if claim.place is not None and claim.state is ClaimState.HELD
        )


async def serve(
    session: Session,
    cls: type[Struct],
    handler: Callable[[Any], object],
    *,
    name: str,
    standby: bool,
    on_change: Callable[[Service], object] | None,
    timeout: float | None,
    may_await: bool,
    do: Doing,
) -> Service:
    """Answer requests; the node has told how the claim stands when this returns."""
    check_handler(handler, may_await=may_await)
    service = Service(session, check_class(cls), do)
    service.name = name
    claim = session.core.claim_requests(
        cls,
        RequestHandling(session, cls, handler, may_await=may_await).take,
        monotonic_ns(),
        name=name,
        is_standby=standby,
        told=_teller(session, on_change, service),
    )
    await service.open([claim], timeout)
    return service


async def own(
    session: Session,
    cls: type[Struct],
    keys: Iterable[Any] | None,
    *,
    standby: bool,
    on_change: Callable[[Ownership], object] | None,
    timeout: float | None,
    do: Doing,
) -> Ownership:
    """Be the only one who changes objects; the node has told of all claims when this returns."""
    ownership = Ownership(session, check_class(cls), do)
    claims = session.core.claim_objects(
        cls,
        keys,
        monotonic_ns(),
        is_standby=standby,
        told=_teller(session, on_change, ownership),
    )
    await ownership.open(claims, timeout)
    return ownership


def _teller(
    session: Session, on_change: Callable[[H], object] | None, holding: H
) -> Callable[[], object]:
    """What tells the program of a change."""
    if on_change is None:
        return lambda: None
    check_callback(on_change)
    return lambda: session.call_back([on_change], holding)
