"""The configuration and the statistics of a space."""

from __future__ import annotations

from dataclasses import dataclass, field

from skerry.client.core.arguments import check_count, check_text
from skerry.errors import LimitExceeded
from skerry.limits import (
    CLIENT_NAME_CHAR_COUNT_MAX,
    EVENT_QUEUE_COUNT_MAX,
    FRAME_HEADER_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    SEND_BYTES_MAX,
    SMALL_FRAME_BYTES_MAX,
)
from skerry.protocol.access.client import EXTENSION_SUBJECTS
from skerry.protocol.backoff import Backoff
from skerry.protocol.machine import Statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceConfig:
    name: str = "skerry-client"
    """The client's name in the lists and in the permission rules of the node."""
    secret: str | None = field(default=None, repr=False)
    is_patient: bool = False
    """Whether to retry when the first connection fails."""
    extensions: int = EXTENSION_SUBJECTS
    """The additions to DOTS that the client offers; 0 for none."""
    reconnect: Backoff = field(
        default_factory=lambda: Backoff(first_ns=100_000_000, delay_ns_max=5_000_000_000)
    )
    handshake_ns_max: int = 10_000_000_000
    """Timeout for the answer of a node to the handshake."""
    answer_ns_max: int = 10_000_000_000
    """Timeout for the answer of a node to an echo."""
    idle_ns_max: int = 20_000_000_000
    """Silence after which a node is sent an echo: a stream may be dead without an error."""
    send_bytes_max: int = SEND_BYTES_MAX
    receive_bytes_max: int = PAYLOAD_BYTES_MAX
    """Limit for one received object, encoded. A larger one is dropped and reported. The default is
    the largest value that a node can be configured to accept, since a node has its own limit."""
    queue_count_max: int = EVENT_QUEUE_COUNT_MAX

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a client")
        if self.secret is not None:
            check_text(self.secret, "the secret")
        check_count(self.send_bytes_max, "send_bytes_max")
        check_count(self.receive_bytes_max, "receive_bytes_max")
        check_count(self.queue_count_max, "queue_count_max")
        if self.receive_bytes_max > PAYLOAD_BYTES_MAX:
            raise LimitExceeded(
                what="receive_bytes_max", value=self.receive_bytes_max, limit=PAYLOAD_BYTES_MAX
            )
        if len(self.name) > CLIENT_NAME_CHAR_COUNT_MAX:
            raise LimitExceeded(
                what="count of characters of the client's name",
                value=len(self.name),
                limit=CLIENT_NAME_CHAR_COUNT_MAX,
            )

    @property
    def frame_bytes_max(self) -> int:
        """Limit for one frame or message from the node."""
        return max(self.receive_bytes_max, SMALL_FRAME_BYTES_MAX) + FRAME_HEADER_BYTES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceStatistics(Statistics):
    connected_count: int
    published_count: int
    waiting_bytes: int
    unknown_count: int
    """Objects that were dropped: their type is not described, or has a conflicting definition."""
    skipped_count: int
    """Objects that were dropped because they are above `receive_bytes_max`."""
