"""The events and the counters of a connection."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from skerry.protocol.distributor.receiving.updates import Updates
from skerry.protocol.machine import MachineEvent, Statistics


class LossReason(enum.Enum):
    """Why a part of a stream is lost."""

    RETRIES = "retries"
    """It was requested as often as is allowed, and not received."""
    NAK = "nak"
    """The sender no longer has it."""
    OVERFLOW = "overflow"
    """Too many of the datagrams after it were waiting."""
    JUMP = "jump"
    """The range is larger than can be requested."""
    REMOVED = "removed"
    MALFORMED = "malformed"
    """It was received, but is malformed."""


class RemovalReason(enum.Enum):
    """Why a sender was removed."""

    SILENT = "silent"
    """Neither data nor a heartbeat was received for too long."""
    UNANNOUNCED = "unannounced"
    """No announcement was received for too long."""
    GOODBYE = "goodbye"
    """The sender said goodbye."""


class Direction(enum.Enum):
    """The direction in which the socket failed."""

    SEND = "send"
    RECEIVE = "receive"


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderInfo:
    address: str
    sender_id: int
    start: int
    """64 bits of milliseconds after its announcement; the 32 bits of its header before."""
    application_id: int
    application: str = ""
    """Empty before its announcement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(MachineEvent):
    """Updates of one sender in the order in which it published them."""

    sender: SenderInfo
    batch: Updates
    """Subject and data of each. The receiver of the event owns them."""
    is_relayed: bool = False
    """A gateway relayed them to this group, so other gateways must not forward them."""
    numbers: list[tuple[int, int]] | None = None
    """The index of the first update of each datagram, and its number; None if not requested."""

    @property
    def updates(self) -> list[tuple[str, bytes]]:
        """The updates as a list, which must not be changed."""
        return self.batch.pairs()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesLost(MachineEvent):
    """Datagrams of a sender are lost; the event is in order with the updates before and after."""

    sender: SenderInfo
    first_seq: int
    stop_seq: int
    """The number after the last one that is lost; both wrap after 32 bits."""
    reason: LossReason
    is_stopped: bool = False
    """Delivery from this sender stops, by the loss policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUnknown(MachineEvent):
    """The stream of a sender is delivered from `stop_seq` on. Whether the datagrams before were
    sent before the subscription, or are lost, cannot be determined: the sender is a Java program,
    or did not answer."""

    sender: SenderInfo
    first_seq: int
    """The first datagram that may be lost."""
    stop_seq: int
    """The number after the last one; equal if no number of the sender was ever received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderFound(MachineEvent):
    """A sender announced itself."""

    group: str
    port: int
    sender: SenderInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderRemoved(MachineEvent):
    """A sender that had announced itself was removed."""

    group: str
    port: int
    sender: SenderInfo
    reason: RemovalReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SendersRefused(MachineEvent):
    """The limit of senders is reached; reported once until a sender is removed."""

    group: str
    port: int
    sender: SenderInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLargeForJava(MachineEvent):
    """An update was published that Java programs of the group cannot read: it needs more than two
    datagrams, and they reassemble at most two. Other programs receive it."""

    subject: str
    size: int
    """Bytes of the data of the update."""
    limit: int
    """The largest size that fits, under this subject and with this segment size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityTaken(MachineEvent):
    """Java programs cannot distinguish another sender from this one: open the connection again."""

    group: str
    port: int
    sender: SenderInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherDialect(MachineEvent):
    """A sender of the group uses the other dialect and is ignored; reported once."""

    group: str
    port: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nagging(MachineEvent):
    """Requests exceeded the limit for too long: the connection stops requesting and delivering."""

    group: str
    port: int
    request_count: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationFailed(MachineEvent):
    """The socket failed; datagrams that were not sent are kept and can be requested."""

    group: str
    port: int
    direction: Direction
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionClosed(MachineEvent):
    """The connection has served the last requests; its socket may be closed."""

    group: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributorStatistics(Statistics):
    """Counters of a connection since it was made, and what it holds now."""

    sent_update_count: int
    sent_datagram_count: int
    sent_byte_count: int
    """Data only, without control messages and retransmissions."""
    resent_datagram_count: int
    resent_byte_count: int
    control_sent_count: int
    received_update_count: int
    received_datagram_count: int
    received_byte_count: int
    delivered_update_count: int
    requests_sent_count: int
    requests_received_count: int
    """Requests for data of this connection."""
    requests_seen_count: int
    """Requests for data of other senders."""
    naks_sent_count: int
    naks_received_count: int
    lost_datagram_count: int
    faults: Mapping[str, int]
    """Datagrams, or updates, that were dropped, by reason."""
    sender_count: int
    publisher_count: int
    subscription_count: int
    missing_count: int
    """Datagrams that are being requested."""
    waiting_count: int
    """Datagrams that wait for a missing one."""
    waiting_bytes: int
    cache_count: int
    cache_bytes: int
    last_seq: int
    """The number of the last datagram sent; 0 before the first."""
    is_nagging: bool
