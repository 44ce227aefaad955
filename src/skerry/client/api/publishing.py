"""What the spaces have alike: the way of an object from its publisher into the buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import time
from typing import TYPE_CHECKING, Any, overload

from skerry.client.core.send_buffer import SendBuffer
from skerry.codec.hot_loops import PublishPath
from skerry.objects.base import Struct

__all__ = ["Publishing"]


class Publishing(PublishPath):
    """Who publishes. The shortest way through is in `codec.hot_loops`."""

    def __init__(self, buffer: SendBuffer, first: Callable[..., Any], wake: Any) -> None:
        """`first` publishes what is new or unusual, `wake` tells whoever writes."""
        super().__init__(buffer.waiting, first, wake, time)

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # narrower: what an outlet takes depends on who made it
        def publish(
            self, what: Struct, *, only: Iterable[str] | None = None, subject: str = ""
        ) -> None: ...
        @overload
        def publish(self, what: str, data: bytes, /) -> None: ...
        def publish(
            self, what: Any, data: Any = None, *, only: Any = None, subject: Any = ""
        ) -> None: ...
