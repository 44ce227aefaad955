"""Which event loop a program runs on: uvloop where it is installed, else that of asyncio."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import threading
from collections.abc import Coroutine
from typing import Any, Literal

from skerry.errors import ConfigError

__all__ = ["LoopKind", "run_loop"]

LoopKind = Literal["auto", "asyncio", "uvloop"]


def run_loop(main: Coroutine[Any, Any, None], kind: LoopKind = "auto") -> None:
    """Run to its end; ConfigError when a loop is wanted that is not installed."""
    is_there = importlib.util.find_spec("uvloop") is not None
    if kind == "uvloop" and not is_there:
        main.close()
        raise ConfigError(
            key="node.loop",
            origin="configuration",
            detail="uvloop is not installed",
            hint="install it with `pip install skerry[speed]`, or leave the choice to skerry",
        )
    if kind == "asyncio" or not is_there:
        asyncio.run(main)
        return
    import uvloop

    before = signal.getsignal(signal.SIGINT)
    try:
        uvloop.run(main)
    finally:
        # It leaves a handler that leads nowhere once its loop is closed. Only the main thread has
        # handlers, and only there a loop sets one.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
