"""What a connection tells the application, besides its counters."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from skerry.protocol.distributor.receiving.updates import Updates
from skerry.protocol.machine import MachineEvent, Statistics

__all__ = [
    "CommunicationFailed",
    "ConnectionClosed",
    "Delivered",
    "Direction",
    "DistributorStatistics",
    "IdentityTaken",
    "LossReason",
    "Nagging",
    "OtherDialect",
    "RemovalReason",
    "SenderFound",
    "SenderInfo",
    "SenderRemoved",
    "SendersRefused",
    "StartUnknown",
    "TooLargeForJava",
    "UpdatesLost",
]


class LossReason(enum.Enum):
    """Why a part of a stream cannot be had any more."""

    RETRIES = "retries"
    """It was asked for as often as is allowed, and did not come."""
    NAK = "nak"
    """Its sender does not have it any more."""
    OVERFLOW = "overflow"
    """Too much of what follows it was waiting."""
    JUMP = "jump"
    """It is more than can be asked for."""
    REMOVED = "removed"
    """Its sender is gone."""
    MALFORMED = "malformed"
    """It came, and its bytes are not what they should be."""


class RemovalReason(enum.Enum):
    """Why a sender is not counted any more."""

    SILENT = "silent"
    """Neither data nor a heartbeat for too long."""
    UNANNOUNCED = "unannounced"
    """No announcement for too long."""
    GOODBYE = "goodbye"
    """It said so."""


class Direction(enum.Enum):
    """Which way a failure was about."""

    SEND = "send"
    RECEIVE = "receive"


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderInfo:
    """A sender in the group, as far as it is known."""

    address: str
    sender_id: int
    start: int
    """64 bits of milliseconds once it has announced itself; what its header has until then."""
    application_id: int
    application: str = ""
    """Empty until it has announced itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered(MachineEvent):
    """Updates of one sender in the order in which it published them."""

    sender: SenderInfo
    batch: Updates
    """Subject and data of each. They belong to whoever took the event."""
    is_relayed: bool = False
    """A gateway brought them here, so no gateway may take them elsewhere."""
    numbers: list[tuple[int, int]] | None = None
    """For who asked for numbers: from which update on each datagram goes, and its number."""

    @property
    def updates(self) -> list[tuple[str, bytes]]:
        """The same as a list, which is not to be changed."""
        return self.batch.pairs()


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesLost(MachineEvent):
    """Datagrams of a sender that never will be delivered: between the updates before and after."""

    sender: SenderInfo
    first_seq: int
    stop_seq: int
    """The number after the last one lost; both wrap after 32 bits."""
    reason: LossReason
    is_stopped: bool = False
    """Nothing more of this sender is delivered, as the policy wants it."""


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
    """A sender that had announced itself is gone."""

    group: str
    port: int
    sender: SenderInfo
    reason: RemovalReason


@dataclass(frozen=True, slots=True, kw_only=True)
class SendersRefused(MachineEvent):
    """There are more senders than a connection listens to; told once until one leaves."""

    group: str
    port: int
    sender: SenderInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLargeForJava(MachineEvent):
    """An update was published that Java programs of the group cannot read: it needs more than two
    datagrams, and they reassemble at most two. Other programs receive it."""

    subject: str
    size: int
    """Bytes of its data."""
    limit: int
    """The largest size that fits, under this subject and with this segment size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityTaken(MachineEvent):
    """Java programs cannot tell this other sender from us: open the connection anew."""

    group: str
    port: int
    sender: SenderInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherDialect(MachineEvent):
    """A sender of the group speaks the other dialect and is not listened to; told once."""

    group: str
    port: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Nagging(MachineEvent):
    """So much was asked for, for so long, that the connection asks and delivers no more."""

    group: str
    port: int
    request_count: int
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationFailed(MachineEvent):
    """The socket refused; what was to be sent is kept and can be asked for."""

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
    """Data only: neither control messages nor what was sent again."""
    resent_datagram_count: int
    resent_byte_count: int
    control_sent_count: int
    received_update_count: int
    received_datagram_count: int
    received_byte_count: int
    delivered_update_count: int
    requests_sent_count: int
    requests_received_count: int
    """For data of ours."""
    requests_seen_count: int
    """For data of others."""
    naks_sent_count: int
    naks_received_count: int
    lost_datagram_count: int
    faults: Mapping[str, int]
    """Datagrams, or updates, that were of no use, by reason."""
    sender_count: int
    publisher_count: int
    subscription_count: int
    missing_count: int
    """Datagrams that are being asked for."""
    waiting_count: int
    """Datagrams that wait for one of those."""
    waiting_bytes: int
    cache_count: int
    cache_bytes: int
    last_seq: int
    """The number of the datagram sent last; 0 before any."""
    is_nagging: bool
