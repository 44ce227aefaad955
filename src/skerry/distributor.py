"""The distributor: many small updates to many receivers by IP multicast, without a node.

    from skerry import distributor

    with distributor.open("239.192.7.1:4711", interface="127.0.0.1") as connection:
        publisher = connection.publisher()
        publisher.publish("/prices/ERIC-B", b"92.14")

Updates arrive in the order in which a publisher published them. Lost datagrams are requested and
sent again. Updates that cannot be repaired are reported by an event.
"""

from __future__ import annotations

from skerry.client.distributor.config import Config
from skerry.client.distributor.events import SubscriberCut, UpdatesDropped
from skerry.client.distributor.report import ConnectionStatistics
from skerry.client.distributor.sync import BlockingGroupConnection as Connection
from skerry.client.distributor.sync import Publisher, Subscriber
from skerry.client.distributor.sync import open_connection as open  # noqa: A004 - its public name
from skerry.protocol.distributor.config import Dialect, LossPolicy
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    ConnectionClosed,
    IdentityTaken,
    LossReason,
    Nagging,
    OtherDialect,
    RemovalReason,
    SenderFound,
    SenderInfo,
    SenderRemoved,
    SendersRefused,
    StartUnknown,
    TooLargeForJava,
    UpdatesLost,
)
from skerry.protocol.machine import MachineEvent as Event

__all__ = [
    "CommunicationFailed",
    "Config",
    "Connection",
    "ConnectionClosed",
    "ConnectionStatistics",
    "Dialect",
    "Event",
    "IdentityTaken",
    "LossPolicy",
    "LossReason",
    "Nagging",
    "OtherDialect",
    "Publisher",
    "RemovalReason",
    "SenderFound",
    "SenderInfo",
    "SenderRemoved",
    "SendersRefused",
    "StartUnknown",
    "Subscriber",
    "SubscriberCut",
    "TooLargeForJava",
    "UpdatesDropped",
    "UpdatesLost",
    "open",
]
