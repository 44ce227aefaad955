"""Which event loop a program runs on: uvloop where it is installed, else that of asyncio."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import threading
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

from skerry.errors import ConfigError

__all__ = ["LoopKind", "new_loop", "run_loop"]

LoopKind = Literal["auto", "asyncio", "uvloop"]
T = TypeVar("T")


def run_loop(main: Coroutine[Any, Any, T], kind: LoopKind = "auto") -> T:
    """Run to its end; ConfigError when a loop is wanted that is not installed."""
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
        # It leaves a handler that leads nowhere once its loop is closed. Only the main thread has
        # handlers, and only there a loop sets one.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def new_loop(kind: LoopKind = "auto") -> asyncio.AbstractEventLoop:
    """A loop for who runs it in pieces; ConfigError when one is wanted that is not installed."""
    if not _is_uvloop(kind):
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


def _is_uvloop(kind: LoopKind) -> bool:
    is_there = importlib.util.find_spec("uvloop") is not None
    if kind == "uvloop" and not is_there:
        raise ConfigError(
            key="node.loop",
            origin="configuration",
            detail="uvloop is not installed",
            hint="install it with `pip install skerry[speed]`, or leave the choice to skerry",
        )
    return is_there and kind != "asyncio"
