"""The asyncio twins: `skerry.aio.connect` is `skerry.connect` for programs that run a loop.

`skerry.aio.distributor` is `skerry.distributor` likewise.
"""

from __future__ import annotations

from skerry.client.aio import Container, Space, Subscription, connect
from skerry.client.distributor import aio as distributor

__all__ = ["Container", "Space", "Subscription", "connect", "distributor"]
