"""What `outgoing` does first, for where nothing is compiled: as few steps as can be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skerry.client.distributor.outgoing import PublishBuffer

__all__ = ["Publish", "plain_publish", "publish_for_this_build"]

Publish = Callable[[str, bytes], None]

_IS_COMPILED: Final = not hasattr(PublishBuffer.publish, "__code__")


def plain_publish(outgoing: PublishBuffer) -> Publish:
    """Publishes like `outgoing.publish`, in less time where updates are as the one before."""
    pending = outgoing.pending
    publish_other = outgoing.publish
    drain = outgoing.drain

    def publish(subject: str, data: bytes) -> None:
        last_subject, length, piece = outgoing.run
        if subject is not last_subject or len(data) != length or type(data) is not bytes:
            publish_other(subject, data)
            return
        # Here as well in one step.
        pending.extend((piece, data))
        if len(pending) >= outgoing.pending_count_max:
            drain()

    return publish


def publish_for_this_build(outgoing: PublishBuffer) -> Publish:
    """The quicker one of the two."""
    return outgoing.publish if _IS_COMPILED else plain_publish(outgoing)
