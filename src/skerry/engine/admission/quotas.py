"""The limits of one client and of one address, and the meter of published updates."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

from skerry.codec.frame import buffer_bytes_max
from skerry.limits import (
    CACHE_BYTES_MAX,
    CACHE_OBJECT_COUNT_MAX,
    CLAIM_COUNT_MAX,
    CONFLATED_COUNT_MAX,
    FRAME_HEADER_BYTES_MAX,
    GROUP_COUNT_MAX,
    PAYLOAD_BYTES_MAX,
    REQUEST_COUNT_MAX,
    SMALL_FRAME_BYTES_MAX,
    STREAM_WAITING_BYTES_MAX,
    TYPE_COUNT_MAX,
    UPDATE_BYTES_DEFAULT,
)

_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """Limits per client and per address, so that one of them cannot use up what all need."""

    connection_count_max: int = 10_000
    """Connections of all clients. Each takes a file descriptor and some ten kilobytes."""
    connection_count_per_address_max: int = 2_000
    """Connections from one address: a computer with very many programs, and yet a fifth of all.
    Unix sockets have no address, and only programs on this computer can use them."""
    handshake_s: float = 10.0
    """Time that a connection has for its handshake. A client needs milliseconds; a connection that
    sends nothing would otherwise stay for ever."""
    update_bytes_max: int = UPDATE_BYTES_DEFAULT
    """Encoded size of one published object, 256 MiB at most. The node holds some copies of an
    object while it processes it, and one more for each slow subscriber."""
    unfinished_bytes_per_address_max: int = 320 * 1024 * 1024
    """Memory of incomplete frames of clients of one address: one of the largest size, or about
    thirty of the usual 10 MiB. Past it the client with the most of it is disconnected. Clients that
    may not publish have frames of at most 64 KiB."""
    unfinished_bytes_per_node_max: int = 640 * 1024 * 1024
    """The same for all clients of the node."""
    updates_per_s_max: float = 0.0
    """Updates per second that a client may publish, on average; 0 is unlimited, which is the
    default because the right limit depends on the system."""
    bytes_per_s_max: float = 0.0
    """Bytes of updates per second that a client may publish, on average; 0 is unlimited."""
    updates_per_s_per_address_max: float = 0.0
    """Updates per second of all clients of one address, on average; 0 is unlimited. Without it, a
    program could evade its limit by connecting twice."""
    bytes_per_s_per_address_max: float = 0.0
    """Bytes of updates per second of all clients of one address, on average; 0 is unlimited."""
    burst_s: float = 1.0
    """Length of a burst in seconds: programs may publish so many seconds' worth of updates at
    once."""
    join_count_max: int = 10_000
    """Groups that one client may join: types and patterns. More than a system has types."""
    join_count_per_address_max: int = 200_000
    """Memberships of clients of one address: a thousand programs with two hundred each."""
    join_count_per_node_max: int = 1_000_000
    """Memberships of all clients, each some hundred bytes."""
    pattern_count_per_address_max: int = GROUP_COUNT_MAX // 10
    """Memberships by subject pattern of clients of one address; they take more memory."""
    pattern_count_per_node_max: int = GROUP_COUNT_MAX
    """Memberships by subject pattern of all clients."""
    group_count_per_address_max: int = GROUP_COUNT_MAX // 10
    """Different groups that clients of one address are in."""
    type_count_max: int = 1_000
    """Types that one client may describe; the node makes tables for each. Large programs have some
    hundreds; the registry has room for ten such clients."""
    type_bytes_max: int = 4 * 1024 * 1024
    """Encoded type descriptions of one client. A large program has less than 1 MiB of them."""
    type_bytes_per_address_max: int = 64 * 1024 * 1024
    """Memory of the type descriptions of all clients of one address, each definition counted once:
    16 000 types of eleven fields."""
    type_bytes_per_node_max: int = 256 * 1024 * 1024
    """The same for all clients of the node."""
    type_count_per_address_max: int = TYPE_COUNT_MAX // 5
    """Types in use that clients of one address described."""
    object_count_max: int = CACHE_OBJECT_COUNT_MAX // 2
    """Cached objects that one client created: a faulty program leaves half to the others."""
    object_bytes_max: int = CACHE_BYTES_MAX // 2
    """Bytes of these objects."""
    object_count_per_address_max: int = CACHE_OBJECT_COUNT_MAX // 4 * 3
    """Cached objects that clients of one address created, disconnected clients included. A computer
    with faulty programs, or with one that reconnects all the time, leaves a quarter to the
    others."""
    object_bytes_per_address_max: int = CACHE_BYTES_MAX // 4 * 3
    """Bytes of these objects."""
    waiting_bytes_max: int = STREAM_WAITING_BYTES_MAX
    """Bytes queued for a client, before it is disconnected or its updates are conflated."""
    backpressure_s_max: float = 2.0
    """How long publishers wait for a subscriber that reads, but slower than they publish; 0
    switches backpressure off. A subscriber that reads in this time what its transport has buffered
    is waited for again, at some MB/s. Any other subscriber is disconnected when too much is queued
    for it."""
    waiting_bytes_per_address_max: int = STREAM_WAITING_BYTES_MAX * 50
    """Bytes queued for clients of one address: fifty clients that do not read are a fault there."""
    waiting_bytes_per_node_max: int = STREAM_WAITING_BYTES_MAX * 100
    """Bytes queued for all clients. Past it the client with the longest queue is disconnected."""
    conflated_count_per_address_max: int = CONFLATED_COUNT_MAX
    """Conflated objects that wait to be sent to clients of one address; each takes about 700 bytes
    besides the update. Past it the client with the most of them is disconnected."""
    conflated_count_per_node_max: int = CONFLATED_COUNT_MAX * 2
    """The same for all clients."""
    view_count_max: int = 1_000
    """Filtered subscriptions of one client: each is tested against every update of its type."""
    view_part_count_max: int = 10_000
    """Comparisons in the conditions of all filtered subscriptions of one client: so many take a
    millisecond for each update. Ten for each subscription; programs have some dozens of
    subscriptions with a few comparisons each."""

    view_count_per_address_max: int = 20_000
    """Filtered subscriptions of clients of one address."""
    view_count_per_node_max: int = 100_000
    """Filtered subscriptions of all clients."""
    view_part_count_per_address_max: int = 200_000
    """Comparisons in the conditions of clients of one address."""
    view_part_count_per_node_max: int = 1_000_000
    """Comparisons in the conditions of all clients."""
    view_object_count_per_address_max: int = 2_500_000
    """Objects in filtered subscriptions of clients of one address, counted for each subscription:
    the node keeps the key of each, which takes about 100 bytes. Past it a new subscription is
    refused, and when existing ones grow, the client with the most objects is disconnected."""
    view_object_count_per_node_max: int = 5_000_000
    """The same for all clients."""

    claim_count_max: int = CLAIM_COUNT_MAX
    """Claims of one client to objects, and to answer requests."""
    request_count_max: int = REQUEST_COUNT_MAX
    """Requests of one client that have no response yet. Their bytes are limited by
    `waiting_bytes_max`."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            may_be_zero = "_per_s_" in field.name or field.name == "backpressure_s_max"
            if value < 0 or (value == 0 and not may_be_zero):
                least = "0 or more" if may_be_zero else "more than 0"
                raise ValueError(f"{field.name} must be {least}, and is {value}")
        if self.update_bytes_max > PAYLOAD_BYTES_MAX:
            raise ValueError(
                f"update_bytes_max must be at most {PAYLOAD_BYTES_MAX},"
                f" and is {self.update_bytes_max}"
            )
        needed = buffer_bytes_max(self.frame_bytes_max)
        for name in ("unfinished_bytes_per_address_max", "unfinished_bytes_per_node_max"):
            if getattr(self, name) < needed:
                raise ValueError(
                    f"{name} must have room for one object of update_bytes_max, which takes"
                    f" {needed} bytes while it is received, and is {getattr(self, name)}"
                )

    @property
    def frame_bytes_max(self) -> int:
        """The limit for one frame of a client that may publish."""
        return max(self.update_bytes_max, SMALL_FRAME_BYTES_MAX) + FRAME_HEADER_BYTES_MAX

    @property
    def is_measured(self) -> bool:
        """Whether the publishing rate of a client is limited."""
        return self.updates_per_s_max > 0 or self.bytes_per_s_max > 0 or self.is_address_measured

    @property
    def is_address_measured(self) -> bool:
        """Whether the publishing rate of all clients of an address is limited."""
        return self.updates_per_s_per_address_max > 0 or self.bytes_per_s_per_address_max > 0


class PublishMeter:
    """Limits the publishing rate of a client, and of all clients of its address.

    It is a leaky bucket, stored as the time at which the bucket will be empty. That time may be
    ahead by the length of a burst. A single update is accepted however large it is; the next ones
    are rejected until the bucket has drained.
    """

    __slots__ = (
        "_address",
        "_burst_ns",
        "_byte_ns",
        "_bytes_done_ns",
        "_limits",
        "_update_ns",
        "_updates_done_ns",
        "_whose",
    )

    def __init__(
        self, limits: ClientLimits, *, address: PublishMeter | None = None, whose: str = ""
    ) -> None:
        self._address = address
        self._whose = whose
        self._updates_done_ns = 0.0
        self._bytes_done_ns = 0.0
        self.renew(limits)

    def renew(self, limits: ClientLimits) -> None:
        """Replace the limits. The level of a bucket stays, unless its rate is not limited now."""
        self._limits = limits
        self._update_ns = _per_unit_ns(limits.updates_per_s_max)
        self._byte_ns = _per_unit_ns(limits.bytes_per_s_max)
        self._burst_ns = limits.burst_s * _SECOND_NS
        if not limits.updates_per_s_max:
            self._updates_done_ns = 0.0
        if not limits.bytes_per_s_max:
            self._bytes_done_ns = 0.0

    def spend(self, count: int, size: int, now_ns: int) -> str | None:
        """Count updates of `size` bytes together. Returns why they are rejected and not counted."""
        why = self._fault(now_ns)
        if why is None and self._address is not None:
            why = self._address.spend(count, size, now_ns)
        if why is not None:
            return why
        self._updates_done_ns = max(self._updates_done_ns, now_ns) + count * self._update_ns
        self._bytes_done_ns = max(self._bytes_done_ns, now_ns) + size * self._byte_ns
        return None

    def _fault(self, now_ns: int) -> str | None:
        limits = self._limits
        if self._updates_done_ns - now_ns > self._burst_ns:
            return f"more than {limits.updates_per_s_max:g} updates a second{self._whose}"
        if self._bytes_done_ns - now_ns > self._burst_ns:
            return f"more than {limits.bytes_per_s_max:g} bytes a second{self._whose}"
        return None


def address_meter(limits: ClientLimits) -> PublishMeter:
    return PublishMeter(address_limits(limits), whose=" from one address")


def address_limits(limits: ClientLimits) -> ClientLimits:
    return replace(
        limits,
        updates_per_s_max=limits.updates_per_s_per_address_max,
        bytes_per_s_max=limits.bytes_per_s_per_address_max,
    )


def _per_unit_ns(rate: float) -> float:
    return _SECOND_NS / rate if rate else 0.0
