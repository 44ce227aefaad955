"""Handles of claims: services that answer requests, and ownership of objects."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import nullcontext, suppress
from typing import Any, Final, TypeAlias, TypeVar

from skerry.client.api.subscription import check_callback
from skerry.client.core.arguments import check_class
from skerry.client.core.claims import Claim, ClaimState
from skerry.client.core.received_requests import ReceivedRequest
from skerry.client.io.session import Session
from skerry.closing import Closing
from skerry.errors import (
    DecodeError,
    Disconnected,
    LocalProtocolError,
    Refused,
    RequestError,
    SkerryError,
)
from skerry.objects.base import Struct
from skerry.runtime import request_spans
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.request_spans import HandlingSpan

log = logging.getLogger(__name__)

H = TypeVar("H", bound="ClaimHandle")

LoopCall: TypeAlias = Callable[[Callable[[], None]], object]
"""Calls a function on the loop of a space, unless the space is closed."""
_WORST_FIRST: Final = list(ClaimState)


def check_answer(session: Session, cls: object) -> None:
    """LocalProtocolError unless a class is that of a type; answers are then decoded as it."""
    session.core.types.learn(check_class(cls))


def answer_of(request: Struct, answer: Struct | None, cls: type[Struct]) -> Any:
    """An answer as an object of a class; RequestError if it is another one, or None."""
    if answer is None or answer.descriptor.name != cls.descriptor.name:
        found = "no object" if answer is None else f"a {answer.descriptor.name}"
        error = RequestError(
            f"the handler of {request.descriptor.name} returned {found}, not a"
            f" {cls.descriptor.name}"
        )
        error.hint = "the request was carried out; omit `answer` to accept any answer"
        raise error
    return answer if isinstance(answer, cls) else cls.decode(answer.encode())


def check_handler(handler: object, *, may_await: bool) -> None:
    """LocalProtocolError if an object cannot be used as a handler."""
    if not callable(handler):
        raise LocalProtocolError(f"a handler must be a function, not {type(handler).__name__}")
    is_async = any(inspect.iscoroutinefunction(f) for f in (handler, type(handler).__call__))
    if is_async and not may_await:
        error = LocalProtocolError("a handler of a blocking space cannot be `async`")
        error.hint = "use a space of `skerry.aio`, or return the future of an executor's `submit`"
        raise error


class RequestHandling:
    """The handler of a service. It is called on the loop, for one request after the other."""

    def __init__(
        self,
        session: Session,
        cls: type[Struct],
        handler: Callable[[Any], object],
        *,
        may_await: bool,
    ) -> None:
        self._session = session
        self._cls = cls
        self._handler = handler
        self._may_await = may_await
        self._spans: dict[ReceivedRequest, HandlingSpan] = {}
        """The spans of requests that are being handled, if the program has spans."""

    def handle(self, request: ReceivedRequest) -> None:
        """Call the handler. The response is sent now, or when an awaitable or future is done."""
        try:
            obj = self._cls.decode(request.payload)
        except DecodeError as error:
            self._fail(request, f"its handler cannot decode it: {error}")
            return
        span = request_spans.handling(request.type_name, request.handler, request.trace)
        if span is not None:
            self._spans[request] = span
        try:
            with nullcontext() if span is None else span.entered():
                result = self._handler(obj)
                if self._may_await and inspect.isawaitable(result):
                    # The task has the context, and so the span, in which it is created.
                    self._session.begin_task(self._await(request, result))
                    return
        except BaseException as error:
            self._failed(request, error)
            if not self._session.core.intake.is_sheltered and not isinstance(error, Exception):
                # On the program's own loop, such an error ends the program.
                raise
            return
        if isinstance(result, Future):
            result.add_done_callback(lambda done: self._future_done(request, done))
        else:
            self._respond(request, result)

    def _respond(self, request: ReceivedRequest, result: object) -> None:
        try:
            if inspect.iscoroutine(result):
                # A blocking space does not await it; without this, Python would warn.
                result.close()
            self._session.core.requests_and_claims.answer(request, result, monotonic_ns())
        except SkerryError as error:
            self._failed(request, error)
        else:
            self._end_span(request)
        self._session.write_output()

    async def _await(self, request: ReceivedRequest, result: Awaitable[object]) -> None:
        try:
            self._respond(request, await result)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self._failed(request, error)
            else:
                self._fail(request, "its handler was cancelled")
            if not isinstance(error, Exception):
                raise

    def _future_done(self, request: ReceivedRequest, future: Future[Any]) -> None:
        """Send the response of a future; called on any thread."""
        # If the loop is closed, the connection is closed too.
        with suppress(RuntimeError):
            self._session.loop.call_soon_threadsafe(self._finish, request, future)

    def _finish(self, request: ReceivedRequest, future: Future[Any]) -> None:
        try:
            result = future.result()
        except CancelledError:
            self._fail(request, "its handler was cancelled")
        except BaseException as error:
            # Of any kind: it was raised on another thread, and must not end this one.
            self._failed(request, error)
        else:
            self._respond(request, result)

    def _failed(self, request: ReceivedRequest, error: BaseException) -> None:
        log.error("a callback failed", exc_info=error)
        self._fail(request, _words(error))

    def _end_span(self, request: ReceivedRequest, failure: str = "") -> None:
        span = self._spans.pop(request, None)
        if span is not None:
            span.end(failure)

    def _fail(self, request: ReceivedRequest, reason: str) -> None:
        self._end_span(request, reason)
        self._session.core.requests_and_claims.fail(request, reason, monotonic_ns())
        self._session.write_output()


def _words(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        # The class is the program's, and its `__str__` may fail as well.
        text = "an error without a text"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class ClaimHandle(Closing):
    """One or more claims, until `close` or until they are lost."""

    def __init__(self, session: Session, cls: type[Struct], do: LoopCall) -> None:
        self.type_name = cls.descriptor.name
        self._session = session
        self._call = do
        self._claims: tuple[Claim, ...] = ()
        self._is_closed = False

    @property
    def state(self) -> ClaimState:
        """The state of the claim; of several claims, the worst state."""
        if self._is_closed:
            return ClaimState.CLOSED
        states = (claim.state for claim in self._claims)
        return min(states, key=_WORST_FIRST.index, default=ClaimState.ASKED)

    @property
    def is_held(self) -> bool:
        """Whether all claims are held."""
        return self.state is ClaimState.HELD

    @property
    def reason(self) -> str:
        """Why a claim was lost or refused; empty if none was."""
        return next((claim.reason for claim in self._claims if claim.reason), "")

    def close(self) -> None:
        """Release the claims. The first standby of each holds it then."""
        self._is_closed = True
        self._call(self._release)

    def __repr__(self) -> str:
        count = len(self._claims)
        what = self._claims[0] if count == 1 else f"{count} objects of {self.type_name}"
        return f"<{self.state}: {what}>"

    def _release(self) -> None:
        self._session.core.requests_and_claims.release_claims(self._claims, monotonic_ns())
        self._session.write_output()

    async def open(self, claims: Iterable[Claim], timeout: float | None) -> None:
        """Wait for the state of all claims, on the loop; raises Refused if any is refused."""
        self._claims = tuple(claims)
        self._session.write_output()
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
        if self._session.connection.failure is not None:
            raise Disconnected(self._session.connection.failure)
        refused = [claim for claim in self._claims if claim.state is ClaimState.REFUSED]
        if refused:
            rest = f", and {len(refused) - 1} more" if len(refused) > 1 else ""
            raise Refused(f"the node refused the claim {refused[0].reason or refused[0]}{rest}")


class Service(ClaimHandle):
    """Requests of a type that this space answers while it holds the claim.

    After `close`, requests that were received before are still answered.
    """

    name: str = ""


class Ownership(ClaimHandle):
    """Objects that no other client may change while this space holds the claim."""

    @property
    def held(self) -> frozenset[Any]:
        """Keys of the objects that are held; empty if all objects of a type are claimed."""
        return frozenset(
            claim.key
            for claim in self._claims
            if claim.canonical_key is not None and claim.state is ClaimState.HELD
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
    do: LoopCall,
) -> Service:
    """Claim requests and answer them; returns when the node has reported the claim's state."""
    check_handler(handler, may_await=may_await)
    service = Service(session, check_class(cls), do)
    service.name = name
    claim = session.core.requests_and_claims.claim_requests(
        cls,
        RequestHandling(session, cls, handler, may_await=may_await).handle,
        monotonic_ns(),
        name=name,
        is_standby=standby,
        on_change=_notifier(session, on_change, service),
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
    do: LoopCall,
) -> Ownership:
    """Claim objects; returns when the node has reported the state of all claims."""
    ownership = Ownership(session, check_class(cls), do)
    claims = session.core.requests_and_claims.claim_objects(
        cls,
        keys,
        monotonic_ns(),
        is_standby=standby,
        on_change=_notifier(session, on_change, ownership),
    )
    await ownership.open(claims, timeout)
    return ownership


def _notifier(
    session: Session, on_change: Callable[[H], object] | None, handle: H
) -> Callable[[], object]:
    """A function that calls `on_change` with the handle."""
    if on_change is None:
        return lambda: None
    check_callback(on_change)
    return lambda: session.call_back([on_change], handle)
