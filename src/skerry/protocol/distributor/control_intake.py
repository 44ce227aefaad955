"""Processing of received control messages: announcements, heartbeats, requests and their answers.

A sender becomes known by its first datagram, also by one with data; see `remote_sender`.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.distributor.config import Dialect
from skerry.protocol.distributor.events import IdentityTaken, SenderInfo
from skerry.protocol.distributor.identity import address_bytes, draw_start_ms, is_marked, java_sum
from skerry.protocol.distributor.messages import (
    GOODBYE,
    HEARTBEAT,
    POSITION,
    POSITION_REQUEST,
    REQUEST,
    Configuration,
    DatagramHeader,
    HeartbeatMessage,
    Nak,
    Position,
    PositionRequest,
    RepairRequest,
    UpdateMessage,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.remote_senders import RemoteSender
from skerry.protocol.distributor.receiving.sender_table import SenderTable, sender_info
from skerry.protocol.distributor.sending.sender import Sender
from skerry.protocol.distributor.wire import DatagramWire
from skerry.protocol.machine import Address
from skerry.tracing import DropReason


class OwnIdentity:
    def __init__(
        self,
        sender: Sender,
        *,
        dialect: Dialect,
        group: Address,
        deliveries: Deliveries,
        rng: Random,
    ) -> None:
        self._sender = sender
        self._dialect = dialect
        self._group = group
        self._deliveries = deliveries
        self._rng = rng

    def is_target(self, target_id: int, target_start: int) -> bool:
        """Return whether a request is addressed to this connection."""
        mine = self._sender.identity
        return (target_id, target_start) == (mine.sender_id, mine.start(self._dialect))

    def is_own(self, header: DatagramHeader) -> bool:
        """Return whether this connection sent a datagram."""
        mine = self._sender.identity
        return (header.address, header.sender_id, header.start) == (
            mine.address,
            mine.sender_id,
            mine.start(self._dialect),
        )

    def avoid(self, taken_sums: set[int], now_ns: int) -> None:
        """Choose another identity before the first announcement, if the present one is taken.

        `taken_sums` are the sums by which Java programs distinguish the known senders.
        """
        mine = self._sender.identity
        if self._sender.last_seq == 0 and java_sum(mine.sender_id, mine.start_ms) in taken_sums:
            self._replace(taken_sums, now_ns)

    def compare(self, other: SenderInfo, now_ns: int) -> None:
        """Compare the identity with that of a new sender.

        If they conflict, the identity is replaced. After data was sent under it, that is not
        possible, and the conflict is reported.
        """
        mine = self._sender.identity
        other_sum = java_sum(other.sender_id, other.start)
        own_sum = java_sum(mine.sender_id, mine.start(self._dialect))
        if other_sum != own_sum or not self._sender.publisher_count:
            return
        if self._sender.last_seq == 0:
            self._replace({other_sum}, now_ns)
        else:
            host, port = self._group.host, self._group.port
            self._deliveries.add(IdentityTaken(group=host, port=port, sender=other))

    def _replace(self, taken_sums: set[int], now_ns: int) -> None:
        mine = self._sender.identity
        start_ms = draw_start_ms(
            sender_id=mine.sender_id,
            wall_ms=mine.start_ms,
            rng=self._rng,
            taken_sums=taken_sums,
        )
        self._sender.become(replace(mine, start_ms=start_ms), now_ns)


_WITHOUT_GROUP: Final = (REQUEST, POSITION_REQUEST, POSITION)
"""Kinds of messages that do not name the group."""


class ControlIntake:
    def __init__(
        self,
        *,
        sender: Sender,
        senders: SenderTable,
        identity: OwnIdentity,
        wire: DatagramWire,
        group: Address,
        hears_own: bool,
        may_have_java: bool,
    ) -> None:
        """`hears_own` is whether the connection receives its own data, and `may_have_java` whether
        Java programs can take part in the group.
        """
        self._sender = sender
        self._senders = senders
        self._identity = identity
        self._wire = wire
        self._hears_own = hears_own
        self._may_have_java = may_have_java
        self._is_v6 = ":" in group.host
        self._group_bytes = address_bytes(group.host)
        self.own_host = ""
        """The source address of the connection's own datagrams in an IPv6 group; empty until one
        is received."""
        self.requests_received_count = 0
        self.requests_seen_count = 0
        self.naks_received_count = 0

    def receive(self, data: bytes, source: Address, now_ns: int) -> DropReason | None:
        """Process a control message with a whole header; return why it is dropped, or None."""
        key = data[4:16]
        if data[2] not in _WITHOUT_GROUP and self._is_other_dialect(data[20:24]):
            self._senders.add_foreign(key)
        if self._senders.is_foreign(key):
            return DropReason.DIALECT
        try:
            message = self._wire.decode(data)
        except DecodeError:
            return DropReason.BODY if HEARTBEAT <= data[2] <= POSITION else DropReason.KIND
        assert not isinstance(message, UpdateMessage)
        if self._may_have_java:
            self._detect_java(message.header)
        if isinstance(message, RepairRequest):
            self._receive_request(key, message, now_ns)
        elif isinstance(message, PositionRequest):
            if self._identity.is_target(message.target_id, message.target_start):
                self._sender.position(message.seq, message.span_us, now_ns)
        elif self._is_muted(message.header, source):
            pass
        elif isinstance(message, (Nak, Position)):
            return self._receive_answer(data, message, source, now_ns)
        elif isinstance(message, Configuration):
            return self._receive_configuration(data, message, source, now_ns)
        else:
            return self._receive_heartbeat(data, message, source, now_ns)
        return None

    def remote_sender(self, data: bytes, source: Address, now_ns: int) -> RemoteSender | DropReason:
        """Return the sender of a datagram, added if it was unknown; or why it is refused."""
        key = data[4:16]
        known = self._senders.remotes.get(key)
        if known is not None:
            return known
        if self._senders.is_foreign(key):
            return DropReason.DIALECT
        header = self._wire.decode_header(data)
        # Four bytes cannot hold an IPv6 address; the source address is reported instead.
        address = source.host if self._is_v6 else ""
        remote = self._senders.add(key, header, now_ns, address)
        if remote is None:
            return DropReason.SENDERS
        if self._identity.is_own(header):
            self.own_host = address
        else:
            self._identity.compare(remote.receiver.sender, now_ns)
        return remote

    def _receive_heartbeat(
        self, data: bytes, message: HeartbeatMessage, source: Address, now_ns: int
    ) -> DropReason | None:
        is_goodbye = message.header.kind == GOODBYE
        # A sender that is leaving is added only if some of its updates may be missing.
        is_wanted = message.last_seq > 0 and self._senders.may_miss(data[4:16])
        if is_goodbye and not is_wanted and data[4:16] not in self._senders.remotes:
            return DropReason.DUPLICATE
        remote = self.remote_sender(data, source, now_ns)
        if isinstance(remote, DropReason):
            return remote
        remote.received_ns = now_ns
        if self._senders.is_listening:
            remote.receiver.heartbeat_received(message.last_seq, now_ns)
        if is_goodbye:
            remote.goodbye_received(last_seq=message.last_seq, now_ns=now_ns)
        self._senders.due_at(remote.due_ns())
        return None

    def _receive_configuration(
        self, data: bytes, message: Configuration, source: Address, now_ns: int
    ) -> DropReason | None:
        remote = self.remote_sender(data, source, now_ns)
        if isinstance(remote, DropReason):
            return remote
        is_new = not remote.is_announced
        remote.announcement_received(
            heartbeat_interval_ms=message.heartbeat_interval_ms,
            configuration_interval_ms=message.configuration_interval_ms,
            now_ns=now_ns,
        )
        self._senders.due_at(remote.due_ns())
        if is_new:
            info = sender_info(
                message.header,
                message.start,
                message.application or "",
                source.host if self._is_v6 else "",
            )
            self._senders.introduce(data[4:16], remote, info)
        return None

    def _receive_request(self, key: bytes, message: RepairRequest, now_ns: int) -> None:
        if self._identity.is_target(message.target_id, message.target_start):
            self.requests_received_count += 1
            self._sender.request(message.first_seq, message.last_seq, now_ns, key)
        else:
            self.requests_seen_count += 1
        if self._identity.is_own(message.header):
            return
        target = message.target_id.to_bytes(4, "big") + message.target_start.to_bytes(4, "big")
        for other, remote in self._senders.remotes.items():
            if len(remote.receiver.gaps) and other[4:] == target:
                remote.receiver.request_seen(message.first_seq, message.last_seq, now_ns)

    def _receive_answer(
        self, data: bytes, message: Nak | Position, source: Address, now_ns: int
    ) -> DropReason | None:
        """Process the answer to a request of this connection, or of another one.

        An answer to another one may be all that is received of a sender. It makes the sender known,
        so that its updates are reported as lost when it is removed. It does not begin the stream,
        as it does not name the last number.
        """
        self.naks_received_count += isinstance(message, Nak)
        is_known = data[4:16] in self._senders.remotes
        if not is_known and not self._senders.may_miss(data[4:16]):
            return None
        remote = self.remote_sender(data, source, now_ns)
        if isinstance(remote, DropReason):
            return remote
        receiver = remote.receiver
        if isinstance(message, Nak):
            receiver.nak_received(message.seqs)
        elif is_known:
            remote.received_ns = now_ns
            receiver.position_received(message, now_ns)
        self._senders.due_at(remote.due_ns())
        return None

    def _is_muted(self, header: DatagramHeader, source: Address) -> bool:
        """Return whether a message is ignored, as the connection's own data is not received."""
        if self._hears_own or not self._identity.is_own(header):
            return False
        if self._is_v6:
            self.own_host = source.host
        return True

    def _detect_java(self, header: DatagramHeader) -> None:
        """Respect the limits of Java programs after a control message without our mark."""
        if not is_marked(header.address, header.application_id):
            self._may_have_java = False
            self._sender.java_detected()

    def _is_other_dialect(self, group: bytes) -> bool:
        """Return whether the group in a message is this one in reversed byte order."""
        mine = self._wire.address(self._group_bytes)
        return group != mine and group == mine[::-1]
