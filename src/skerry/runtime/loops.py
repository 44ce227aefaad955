"""Selects the event loop of a program: uvloop if it is installed, otherwise that of asyncio."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import threading
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

from skerry.errors import ConfigError

LoopKind = Literal["auto", "asyncio", "uvloop"]
T = TypeVar("T")


def run_loop(main: Coroutine[Any, Any, T], kind: LoopKind = "auto") -> T:
    """Run a coroutine to its end; ConfigError if the requested loop is not installed."""
    try:
        is_uvloop = _is_uvloop(kind)
    except ConfigError:
        main.close()
        raise
    if not is_uvloop:
        return asyncio.run(main)
    import uvloop

    before = signal.getsignal(signal.SIGINT)
    try:
        return uvloop.run(main)
    finally:
        # uvloop leaves a signal handler that has no effect once its loop is closed. Only the main
        # thread has signal handlers.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def new_loop(kind: LoopKind = "auto") -> asyncio.AbstractEventLoop:
    """A new event loop; ConfigError if the requested loop is not installed."""
    if not _is_uvloop(kind):
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def _is_uvloop(kind: LoopKind) -> bool:
    is_installed = importlib.util.find_spec("uvloop") is not None
    if kind == "uvloop" and not is_installed:
        raise ConfigError(
            key="node.loop",
            origin="configuration",
            detail="uvloop is not installed",
            hint="install it with `pip install skerry[speed]`, or use the loop `auto`",
        )
    return is_installed and kind != "asyncio"
