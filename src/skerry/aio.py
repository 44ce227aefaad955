"""The asyncio API: `skerry.aio.connect` is `skerry.connect` for programs that run a loop.

`skerry.aio.distributor` is the asyncio API of `skerry.distributor`, and `skerry.aio.portal` that of
`skerry.portal`. `skerry.aio.run` is
`asyncio.run` on the fastest installed loop. Any asyncio event loop can be used.
"""

from __future__ import annotations

from collections.abc import Coroutine
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from skerry.client.api.aio import AsyncPicture as Picture
from skerry.client.api.aio import AsyncSpace as Space
from skerry.client.api.aio import AsyncSubscription as Subscription
from skerry.client.api.aio import Container, connect
from skerry.client.distributor import aio as distributor
from skerry.runtime.loops import run_loop

if TYPE_CHECKING:
    from skerry.client.portal import aio as portal

__all__ = [
    "Container",
    "Picture",
    "Space",
    "Subscription",
    "connect",
    "distributor",
    "portal",
    "run",
]

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on uvloop if it is installed (`pip install skerry[speed]`)."""
    return run_loop(main)


if not TYPE_CHECKING:  # A type checker would accept any misspelled name otherwise.

    def __getattr__(name: str) -> Any:
        """Import the API of portals on first use, as it needs a package that is an extra."""
        if name != "portal":
            raise AttributeError(f"module 'skerry.aio' has no attribute {name!r}")
        return import_module("skerry.client.portal.aio")
