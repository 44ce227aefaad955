"""The asyncio twins: `skerry.aio.connect` is `skerry.connect` for programs that run a loop."""

from __future__ import annotations

from skerry.client.aio import Space, connect

__all__ = ["Space", "connect"]
