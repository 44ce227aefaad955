"""The asyncio twins: `skerry.aio.connect` is `skerry.connect` for programs that run a loop."""

from __future__ import annotations

from skerry.client.aio import Container, Space, Subscription, connect

__all__ = ["Container", "Space", "Subscription", "connect"]
