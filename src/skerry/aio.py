"""The asyncio API: `skerry.aio.connect` is `skerry.connect` for programs that run a loop.

`skerry.aio.distributor` is the asyncio API of `skerry.distributor`. `skerry.aio.run` is
`asyncio.run` on the fastest installed loop. Any asyncio event loop can be used.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from skerry.client.api.aio import AsyncPicture as Picture
from skerry.client.api.aio import AsyncSpace as Space
from skerry.client.api.aio import AsyncSubscription as Subscription
from skerry.client.api.aio import Container, connect
from skerry.client.distributor import aio as distributor
from skerry.runtime.loops import run_loop

__all__ = ["Container", "Picture", "Space", "Subscription", "connect", "distributor", "run"]

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on uvloop if it is installed (`pip install skerry[speed]`)."""
    return run_loop(main)
