"""How a program's handler answers requests: at once, or by something that is done later."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any

from skerry.client.core.request_calls import ReceivedRequest
from skerry.client.io.session import Session
from skerry.errors import DecodeError, LocalProtocolError, SkerryError
from skerry.objects.base import Struct
from skerry.runtime.clock import monotonic_ns

__all__ = ["RequestHandling", "check_handler"]

log = logging.getLogger(__name__)


def check_handler(handler: object, *, may_await: bool) -> None:
    """LocalProtocolError for what cannot answer requests."""
    if not callable(handler):
        raise LocalProtocolError(f"a handler is a function, not {type(handler).__name__}")
    is_async = any(inspect.iscoroutinefunction(f) for f in (handler, type(handler).__call__))
    if is_async and not may_await:
        error = LocalProtocolError("a handler of a blocking space cannot be `async`")
        error.hint = "use a space of `skerry.aio`, or return what an executor's `submit` gives"
        raise error


class RequestHandling:
    """A handler at work. It is called on the loop, for one request after the other."""

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

    def take(self, call: ReceivedRequest) -> None:
        """Answer a request, now or later."""
        try:
            asked = self._cls.decode(call.payload)
        except DecodeError as error:
            self._fail(call, f"its handler cannot read it: {error}")
            return
        try:
            result = self._handler(asked)
        except BaseException as error:
            self._failed(call, error)
            if not self._session.core.intake.is_sheltered and not isinstance(error, Exception):
                # The program wants to end, on its own loop.
                raise
            return
        if isinstance(result, Future):
            result.add_done_callback(lambda done: self._done_elsewhere(call, done))
        elif self._may_await and inspect.isawaitable(result):
            self._session.begin_task(self._await(call, result))
        else:
            self._give(call, result)

    def _give(self, call: ReceivedRequest, result: object) -> None:
        try:
            if inspect.iscoroutine(result):
                # It is left alone here, which Python would warn about.
                result.close()
            self._session.core.answer(call, result, monotonic_ns())
        except SkerryError as error:
            self._failed(call, error)
        self._session.carry()

    async def _await(self, call: ReceivedRequest, result: Awaitable[object]) -> None:
        try:
            self._give(call, await result)
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError):
                self._failed(call, error)
            else:
                self._fail(call, "its handler was cancelled")
            if not isinstance(error, Exception):
                raise

    def _done_elsewhere(self, call: ReceivedRequest, future: Future[Any]) -> None:
        """On any thread."""
        # Where the loop is closed, there is nobody left to be answered.
        with suppress(RuntimeError):
            self._session.loop.call_soon_threadsafe(self._finish, call, future)

    def _finish(self, call: ReceivedRequest, future: Future[Any]) -> None:
        try:
            result = future.result()
        except CancelledError:
            self._fail(call, "its handler was cancelled")
        except BaseException as error:
            # Of whatever kind, it was meant for another thread.
            self._failed(call, error)
        else:
            self._give(call, result)

    def _failed(self, call: ReceivedRequest, error: BaseException) -> None:
        log.error("a callback failed", exc_info=error)
        self._fail(call, _words(error))

    def _fail(self, call: ReceivedRequest, reason: str) -> None:
        self._session.core.fail(call, reason, monotonic_ns())
        self._session.carry()


def _words(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        # It is of the program's making, and its text may fail as well.
        text = "an error without a text"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
