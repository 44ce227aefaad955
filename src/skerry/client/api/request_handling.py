"""Calls the handler of a service for each request, and sends the response."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

from skerry.client.core.received_requests import ReceivedRequest
from skerry.client.io.session import Session
from skerry.errors import DecodeError, LocalProtocolError, SkerryError
from skerry.objects.base import Struct
from skerry.runtime.clock import monotonic_ns

log = logging.getLogger(__name__)


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

    def handle(self, request: ReceivedRequest) -> None:
        """Call the handler. The response is sent now, or when an awaitable or future is done."""
        try:
            obj = self._cls.decode(request.payload)
        except DecodeError as error:
            self._fail(request, f"its handler cannot decode it: {error}")
            return
        try:
            result = self._handler(obj)
        except BaseException as error:
            self._failed(request, error)
            if not self._session.core.intake.is_sheltered and not isinstance(error, Exception):
                # On the program's own loop, such an error ends the program.
                raise
            return
        if isinstance(result, Future):
            result.add_done_callback(lambda done: self._future_done(request, done))
        elif self._may_await and inspect.isawaitable(result):
            self._session.begin_task(self._await(request, result))
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

    def _fail(self, request: ReceivedRequest, reason: str) -> None:
        self._session.core.requests_and_claims.fail(request, reason, monotonic_ns())
        self._session.write_output()


def _words(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        # The class is the program's, and its `__str__` may fail as well.
        text = "an error without a text"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
