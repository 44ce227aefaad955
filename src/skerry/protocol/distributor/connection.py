"""A connection to a group: the machine that a runtime drives, made of a sender and receivers.

Data goes the short way: a few looks at the header, then straight into the stream of its sender.
Control messages are read as values and answered. Nothing here knows sockets; what is to be sent to
the group is taken as transmits. A seal, if there is one, is put on and taken off at this border.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Final

from mypy_extensions import mypyc_attr

from skerry.errors import ConfigError, DecodeError
from skerry.protocol.distributor.config import Dialect, DistributorConfig
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    ConnectionClosed,
    Direction,
    DistributorStatistics,
    IdentityTaken,
    Nagging,
    SenderFound,
    SenderInfo,
)
from skerry.protocol.distributor.identity import (
    SenderIdentity,
    address_bytes,
    draw_start_ms,
    is_marked,
    java_sum,
)
from skerry.protocol.distributor.messages import (
    DATAGRAM_DROPS,
    GOODBYE,
    HEADER_BYTES,
    HEARTBEAT,
    POSITION,
    POSITION_REQUEST,
    REQUEST,
    RETRANSMISSION,
    START,
    UPDATE,
    UPDATE_HEADER_BYTES,
    Configuration,
    DatagramHeader,
    HeartbeatMessage,
    Nak,
    Position,
    PositionRequest,
    RepairRequest,
    UpdateMessage,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries, Parcel
from skerry.protocol.distributor.receiving.link_quality import Link
from skerry.protocol.distributor.receiving.nagging import NaggingMonitor
from skerry.protocol.distributor.receiving.remote_senders import RemoteSender
from skerry.protocol.distributor.receiving.sender_table import (
    Asked,
    SenderTable,
    dotted,
    sender_info,
)
from skerry.protocol.distributor.sealing.seal import Seal
from skerry.protocol.distributor.sending.packing import Packer
from skerry.protocol.distributor.sending.sender import Sender, sooner
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import MAJOR_VERSION, wire_of
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.protocol.patterns import PatternHandle
from skerry.tracing import NO_TRACE, DatagramDropped, DropReason, Tracer

__all__ = ["GroupConnection"]

_MS: Final = 1_000_000
_DEFAULTS: Final = DistributorConfig()
_WITHOUT_GROUP: Final = (REQUEST, POSITION_REQUEST, POSITION)
_TRACED_REASONS: Final = {
    DropReason.DUPLICATE: DropReason.DUPLICATE,
    DropReason.SENDERS: DropReason.STRANGER,
    DropReason.SEAL: DropReason.STRANGER,
}
"""Trace events have one of three reasons; all others are traced as malformed."""


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupConnection:
    """One multicast group and port: all that is published to it and heard from it."""

    def __init__(
        self,
        *,
        group: Address,
        identity: SenderIdentity,
        rng: Random,
        now_ns: int,
        config: DistributorConfig | None = None,
        seal: Seal | None = None,
        tracer: Tracer = NO_TRACE,
        first_seq: int = 1,
        segment_bytes: int = 0,
        wall_offset_ns: int | None = None,
        hears_own: bool = True,
    ) -> None:
        """`first_seq` is the number of the first datagram, other than 1 only in tests.

        `segment_bytes` is the size of datagrams that suits the network, used if the configuration
        sets none. `wall_offset_ns` is wall time less monotonic time; without it, a receiver that
        has just joined cannot determine whether a Java program started before. `hears_own` False
        is for a connection that is not given its own data: it is not a sender to itself.
        """
        self._hears_own = hears_own
        # Java programs cannot take part in a sealed group.
        self._may_have_java = seal is None and (config or _DEFAULTS).dialect is Dialect.JAVA
        self._is_v6 = ":" in group.host
        self._own_host = ""
        self._group = group
        self._group_bytes = address_bytes(group.host)
        self._config = config = config or DistributorConfig()
        if config.key_file and seal is None:
            # Whoever makes the seal must not be able to forget it: all would be in clear.
            raise ConfigError(
                key="distributor.key_file",
                origin=config.key_file,
                detail="there are keys, and no seal was made of them",
                hint="hand in skerry.runtime.key_files.open_seal(...)",
            )
        self._rng = rng
        self._seal = seal
        self._tracer = tracer
        self._wire = wire_of(config.dialect)
        self._deliveries = Deliveries()
        self._sender = Sender(
            identity=identity,
            group=self._group_bytes,
            port=group.port,
            config=config,
            rng=rng,
            now_ns=now_ns,
            overhead_bytes=0 if seal is None else seal.overhead_bytes,
            first_seq=first_seq,
            segment_bytes=segment_bytes,
            deliveries=self._deliveries,
        )
        self._subjects = Subjects(is_java=config.java_matching)
        self._roster = SenderTable(
            group=group,
            config=config,
            wire=self._wire,
            subjects=self._subjects,
            deliveries=self._deliveries,
            rng=rng,
            wall_offset_ns=wall_offset_ns,
        )
        self._nagging = NaggingMonitor(
            window_ns=config.nagging_window_ms * _MS,
            check_ns=config.nagging_check_ms * _MS,
            request_count_max=config.nagging_request_count_max,
            now_ns=now_ns,
        )
        self._closed_ns: int | None = None
        self._is_closing = False
        self._is_listening = False
        # What is sealed, or to be lost on purpose, is looked at one by one.
        self._may_run = seal is None and not config.fake_receive_loss_permille
        self._source = group
        """Source address of the datagram that is being received."""
        self._requests: list[bytes] = []
        self._faults = dict.fromkeys(DATAGRAM_DROPS, 0)
        self._received_update_count = 0
        self._received_datagram_count = 0
        self._received_byte_count = 0
        self._requests_sent_count = 0
        self._requests_received_count = 0
        self._requests_seen_count = 0
        self._naks_received_count = 0
        self.publish = self._sender.publish
        """`publish(subject, data, now_ns)`. LocalProtocolError for what is no subject or without
        a publisher, WouldBlock while the bandwidth is used up, LimitExceeded for too much."""
        self.publish_many = self._sender.publish_many
        """`publish_many(updates, first, now_ns)`: how many were taken, from place `first` on."""
        self.publish_pieces = self._sender.publish_pieces
        """`publish_pieces(pieces, now_ns)`: the same for updates that were cut before."""

    # -- for the application

    @property
    def identity(self) -> SenderIdentity:
        """Who this connection is to the group."""
        return self._sender.identity

    @property
    def own_host(self) -> str:
        """The address of this connection as text. In an IPv6 group it is the source of its own
        datagrams once one was received, and a placeholder until then."""
        return self._own_host or dotted(self._sender.identity.address)

    def open_publisher(self, now_ns: int) -> None:
        """One publisher more; the first one is announced to the group."""
        if not self._sender.publisher_count:
            self._keep_apart(now_ns)
        self._sender.open_publisher(now_ns)

    def close_publisher(self, now_ns: int) -> None:
        """One publisher less; after the last one the group is told goodbye."""
        self._sender.close_publisher(now_ns)

    @property
    def checked_subjects(self) -> dict[str, bytes]:
        """Subjects that need no check, with their heads; always one object, not to be changed."""
        return self._sender.heads

    @property
    def is_holding(self) -> bool:
        """Whether updates wait for others to share their datagram; `deadline_ns` ends that."""
        return self._sender.hold_until_ns > 0

    def may_send_later(self, bytes_max: int) -> bool:
        """Whether datagrams that are ready may wait for more, so many bytes of them at most.

        They may while the open one is held; `deadline_ns` ends that.
        """
        return self._sender.hold_until_ns > 0 and self._sender.ready_bytes < bytes_max

    @property
    def segment_bytes(self) -> int:
        """Size of the largest data datagram; it grows when a Java program is detected."""
        return self._sender.segment_bytes

    @property
    def has_backlog(self) -> bool:
        """Whether pieces of a large update wait for bandwidth; `advance` sends them."""
        return self._sender.has_backlog

    @property
    def has_ready(self) -> bool:
        """Whether `take_datagrams` has any."""
        return len(self._sender.ready) > 0 or len(self._requests) > 0

    @property
    def packer(self) -> Packer:
        """The open datagram. An update may be put into it while it is held and has room."""
        return self._sender

    def ready_ns(self, now_ns: int) -> int:
        """When a publisher may go on: now, or when the bandwidth allows it."""
        return self._sender.ready_ns(now_ns)

    def flush(self, now_ns: int) -> None:
        """Send what is held back."""
        self._sender.flush(now_ns)

    def subscribe(self, pattern: str, value: object, now_ns: int | None = None) -> PatternHandle:
        """Deliver what this pattern selects; `match` gives the values for a subject.

        For senders that start after `now_ns`, the stream begins with their first datagram.
        """
        handle = self._subjects.add(pattern, value)
        self._listen_if_wanted()
        if self._is_listening and self._roster.listening_ns is None:
            self._roster.listen(now_ns)
        return handle

    def unsubscribe(self, handle: PatternHandle) -> None:
        """Undo a `subscribe`."""
        self._subjects.remove(handle)
        self._listen_if_wanted()

    def match(self, subject: str) -> list[object]:
        """The values of all subscriptions that select a subject, quick for one seen before."""
        return self._subjects.match(subject)

    def known_senders(self) -> list[SenderFound]:
        """The senders that announced themselves, for a subscriber that comes later."""
        return self._roster.announced()

    def take_links(self) -> list[Link]:
        """What became of the datagrams of each sender since the last call, where any came."""
        return self._roster.take_links()

    def number_updates(self) -> None:
        """From now on, tell with updates in which datagrams they came."""
        self._deliveries.is_numbered = True

    def close(self, now_ns: int) -> None:
        """End all of it. The last requests are served before `ConnectionClosed` is told."""
        if self._is_closing:
            return
        self._is_closing = True
        self._subjects.clear()
        self._listen_if_wanted()
        while self._sender.publisher_count:
            self._sender.close_publisher(now_ns)
        self._closed_ns = now_ns

    def failed(self, direction: Direction, reason: str) -> None:
        """The socket refused. What could not be sent is kept, and asked for by who misses it."""
        self._deliveries.add(
            CommunicationFailed(
                group=self._group.host, port=self._group.port, direction=direction, reason=reason
            )
        )

    # -- for who drives it

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Take a datagram of the group."""
        self._source = source
        if self._seal is not None:
            opened = self._seal.open(data)
            if opened is None:
                self._drop(DropReason.SEAL, source, now_ns)
                return
            data = opened
        if len(data) < HEADER_BYTES:
            fault: DropReason | None = DropReason.SHORT
        elif data[0] != MAJOR_VERSION:
            fault = DropReason.VERSION
        elif data[2] == UPDATE or data[2] == RETRANSMISSION:
            fault = self._receive_data(data, now_ns)
        else:
            fault = self._receive_control(data, now_ns)
        if fault is not None:
            self._drop(fault, source, now_ns)

    def receive_train(self, data: bytes, size: int, source: Address, now_ns: int) -> None:
        """Take datagrams that came at once, each of so many bytes but for the last."""
        stop = len(data)
        assert size > 0 or not stop
        if not stop:
            self.receive(data, source, now_ns)
        first = self._receive_run(data, size, now_ns)
        while first < stop:
            next_first = min(first + size, stop)
            self.receive(data[first:next_first], source, now_ns)
            first = next_first

    def advance(self, now_ns: int) -> None:
        """Do what is due."""
        self._sender.advance(now_ns)
        if self._roster.due_ns is not None and now_ns >= self._roster.due_ns:
            self._ask(self._roster.look(now_ns))
            self._ask_positions(self._roster.take_positions())
        if self._nagging.advance(now_ns):
            self._listen_if_wanted()
            self._deliveries.add(
                Nagging(
                    group=self._group.host,
                    port=self._group.port,
                    request_count=self._nagging.run_count,
                    duration_ms=self._nagging.run_ns // _MS,
                )
            )
        closed_ns = self._served_ns()
        if closed_ns is not None and now_ns >= closed_ns:
            self._closed_ns = None
            self._deliveries.add(ConnectionClosed(group=self._group.host, port=self._group.port))

    def take_events(self) -> Sequence[MachineEvent]:
        """The events since the last call, oldest first."""
        return self._deliveries.take()

    def take_parcels(self) -> list[MachineEvent | Parcel]:
        """The same for who needs updates more than events."""
        return self._deliveries.take_parcels()

    def take_transmits(self) -> Sequence[Transmit]:
        """What is to be sent to the group since the last call, in order."""
        group = self._group
        return [Transmit(destination=group, data=data) for data in self.take_datagrams()]

    def take_datagrams(self) -> list[bytes]:
        """The same without its destination, which is always the group."""
        if not self.has_ready:
            return []
        ready = self._sender.take_ready()
        if self._requests:
            ready += self._requests
            self._requests = []
        if self._seal is not None:
            ready = [self._seal.seal(datagram) for datagram in ready]
        return ready

    def deadline_ns(self) -> int | None:
        """When `advance` has something to do."""
        due_ns = sooner(self._sender.deadline_ns(), self._roster.due_ns)
        due_ns = sooner(due_ns, self._nagging.due_ns)
        return due_ns if self._closed_ns is None else sooner(due_ns, self._served_ns())

    def statistics(self) -> DistributorStatistics:
        """Counters, and what is held now."""
        sender, roster = self._sender, self._roster
        receivers = list(roster.receivers())
        faults = self._faults | {
            DropReason.FAKE: self._faults[DropReason.FAKE] + sender.fake_loss_count,
            DropReason.SUBJECT: self._subjects.refused_count,
            DropReason.PIECES: roster.pieces_fault_count,
        }
        return DistributorStatistics(
            sent_update_count=sender.sent_update_count,
            sent_datagram_count=sender.sent_datagram_count,
            sent_byte_count=sender.sent_byte_count,
            resent_datagram_count=sender.resent_datagram_count,
            resent_byte_count=sender.resent_byte_count,
            control_sent_count=sender.control_sent_count + self._requests_sent_count,
            received_update_count=self._received_update_count,
            received_datagram_count=self._received_datagram_count,
            received_byte_count=self._received_byte_count,
            delivered_update_count=self._deliveries.update_count,
            requests_sent_count=self._requests_sent_count,
            requests_received_count=self._requests_received_count,
            requests_seen_count=self._requests_seen_count,
            naks_sent_count=sender.naks_sent_count,
            naks_received_count=self._naks_received_count,
            lost_datagram_count=roster.lost_count,
            faults={fault.value: count for fault, count in faults.items()},
            sender_count=len(roster),
            publisher_count=sender.publisher_count,
            subscription_count=len(self._subjects),
            missing_count=sum(len(r.gaps) for r in receivers),
            waiting_count=sum(len(r.waiting) for r in receivers),
            waiting_bytes=sum(r.waiting.size for r in receivers),
            cache_count=sender.cache_count,
            cache_bytes=sender.cache_bytes,
            last_seq=sender.last_seq,
            is_nagging=self._nagging.is_fired,
        )

    def _served_ns(self) -> int | None:
        """When a closing connection has served the last requests, as far as is known."""
        over_ns = self._sender.over_ns
        return None if self._closed_ns is None or over_ns is None else max(self._closed_ns, over_ns)

    # -- data

    def _receive_run(self, data: bytes, size: int, now_ns: int) -> int:
        """The usual case of data, without cutting datagrams out; up to where it was that."""
        if (
            not self._is_listening
            or not self._may_run
            or len(data) < UPDATE_HEADER_BYTES
            or data[0] != MAJOR_VERSION
            or data[2] != UPDATE
        ):
            return 0
        remote = self._roster.remotes.get(data[4:16])
        if remote is None or remote.is_leaving:
            return 0
        receiver = remote.receiver
        stop = receiver.receive_run(data, size)
        if stop:
            remote.heard_ns = now_ns
            self._received_datagram_count += (stop + size - 1) // size
            self._received_byte_count += stop
            self._received_update_count += receiver.delivery.run_update_count
        return stop

    def _receive_data(self, data: bytes, now_ns: int) -> DropReason | None:
        if len(data) < UPDATE_HEADER_BYTES:
            return DropReason.SHORT
        permille = self._config.fake_receive_loss_permille
        if permille and self._rng.randrange(1000) < permille:
            return DropReason.FAKE
        self._received_datagram_count += 1
        self._received_byte_count += len(data)
        if data[2] == UPDATE and data[3] & START:
            # Nobody looked into it yet, and an update takes more than a byte.
            count = int.from_bytes(data[24:28], "big")
            self._received_update_count += min(count, len(data))
        if not self._is_listening:
            return None
        key = data[4:16]
        remote = self._roster.remotes.get(key)
        if remote is None:
            found = self._meet(key, data, now_ns)
            if isinstance(found, DropReason):
                return found
            remote = found
        remote.heard_ns = now_ns
        if remote.is_leaving:
            remote.stays_after(int.from_bytes(data[20:24], "big"))
        receiver = remote.receiver
        fault = receiver.receive(data, now_ns)
        self._roster.due_at(receiver.due_ns)
        return fault

    def _listen_if_wanted(self) -> None:
        self._is_listening = len(self._subjects) > 0 and not self._nagging.is_fired
        if not self._is_listening:
            self._roster.desynchronise()

    # -- control messages

    def _receive_control(self, data: bytes, now_ns: int) -> DropReason | None:
        key = data[4:16]
        if data[2] not in _WITHOUT_GROUP and self._is_other_dialect(data[20:24]):
            self._roster.add_foreign(key)
        if self._roster.is_foreign(key):
            return DropReason.DIALECT
        try:
            message = self._wire.decode(data)
        except DecodeError:
            return DropReason.BODY if HEARTBEAT <= data[2] <= POSITION else DropReason.KIND
        assert not isinstance(message, UpdateMessage)
        if self._may_have_java:
            self._mind_java(message.header)
        if isinstance(message, RepairRequest):
            return self._receive_request(key, message, now_ns)
        if isinstance(message, Nak):
            return self._receive_nak(key, message)
        if isinstance(message, PositionRequest):
            return self._receive_position_request(message, now_ns)
        if isinstance(message, Position):
            return self._receive_position(key, message, now_ns)
        if isinstance(message, Configuration):
            return self._receive_configuration(data, message, now_ns)
        return self._receive_heartbeat(data, message, now_ns)

    def _receive_heartbeat(
        self, data: bytes, message: HeartbeatMessage, now_ns: int
    ) -> DropReason | None:
        if self._is_muted(message.header):
            return None
        is_goodbye = message.header.kind == GOODBYE
        remote = self._roster.remotes.get(data[4:16])
        if remote is None:
            # A sender that is leaving is added only if some of its updates may be missing.
            is_missed = message.last_seq and self._roster.may_miss(data[4:16])
            is_late = is_goodbye and not is_missed
            found = DropReason.DUPLICATE if is_late else self._meet(data[4:16], data, now_ns)
            if isinstance(found, DropReason):
                return found
            remote = found
        remote.heard_ns = now_ns
        if self._is_listening:
            remote.receiver.last_seq_told(message.last_seq, now_ns)
        if is_goodbye:
            remote.leaves(last_seq=message.last_seq, now_ns=now_ns)
        self._roster.due_at(remote.due_ns())
        return None

    def _receive_configuration(
        self, data: bytes, message: Configuration, now_ns: int
    ) -> DropReason | None:
        if self._is_muted(message.header):
            return None
        remote = self._roster.remotes.get(data[4:16])
        if remote is None:
            found = self._meet(data[4:16], data, now_ns)
            if isinstance(found, DropReason):
                return found
            remote = found
        is_new = not remote.is_announced
        remote.announced(
            heartbeat_interval_ms=message.heartbeat_interval_ms,
            configuration_interval_ms=message.configuration_interval_ms,
            now_ns=now_ns,
        )
        self._roster.due_at(remote.due_ns())
        if is_new:
            info = sender_info(
                message.header,
                message.start,
                message.application or "",
                self._source.host if self._is_v6 else "",
            )
            self._roster.introduce(data[4:16], remote, info)
        return None

    def _receive_request(
        self, key: bytes, message: RepairRequest, now_ns: int
    ) -> DropReason | None:
        if self._is_for_me(message.target_id, message.target_start):
            self._requests_received_count += 1
            self._sender.request(message.first_seq, message.last_seq, now_ns, key)
        else:
            self._requests_seen_count += 1
        if self._is_own(message.header):
            return None
        target = message.target_id.to_bytes(4, "big") + message.target_start.to_bytes(4, "big")
        for key, remote in self._roster.remotes.items():
            if len(remote.receiver.gaps) and key[4:] == target:
                remote.receiver.request_heard(message.first_seq, message.last_seq, now_ns)
        return None

    def _receive_nak(self, key: bytes, message: Nak) -> DropReason | None:
        self._naks_received_count += 1
        remote = self._roster.remotes.get(key)
        if remote is not None:
            remote.receiver.nak_received(message.seqs)
        return None

    def _receive_position_request(self, message: PositionRequest, now_ns: int) -> DropReason | None:
        if self._is_for_me(message.target_id, message.target_start):
            self._sender.position(message.seq, message.span_us, now_ns)
        return None

    def _receive_position(self, key: bytes, message: Position, now_ns: int) -> DropReason | None:
        remote = self._roster.remotes.get(key)
        if remote is not None:
            remote.heard_ns = now_ns
            remote.receiver.position_received(message, now_ns)
            self._roster.due_at(remote.due_ns())
        return None

    def _meet(self, key: bytes, data: bytes, now_ns: int) -> RemoteSender | DropReason:
        if self._roster.is_foreign(key):
            return DropReason.DIALECT
        header = self._wire.decode_header(data)
        # Four bytes cannot hold an IPv6 address; the source address is reported instead.
        address = self._source.host if self._is_v6 else ""
        remote = self._roster.meet(key, header, now_ns, address)
        if remote is None:
            return DropReason.SENDERS
        if self._is_own(header):
            self._own_host = address
        else:
            self._mind_collision(remote.receiver.sender, now_ns)
        return remote

    def _ask(self, asked: list[Asked]) -> None:
        for sender, first_seq, last_seq in asked:
            self._requests_sent_count += 1
            self._nagging.requested()
            self._requests.append(self._sender.request_to(sender, first_seq, last_seq))

    def _ask_positions(self, asked: list[Asked]) -> None:
        for sender, seq, span_us in asked:
            self._requests.append(self._sender.position_request_to(sender, seq, span_us))

    # -- identities

    def _is_for_me(self, target_id: int, target_start: int) -> bool:
        mine = self._sender.identity
        return (target_id, target_start) == (mine.sender_id, mine.start(self._config.dialect))

    def _is_own(self, header: DatagramHeader) -> bool:
        mine = self._sender.identity
        return (header.address, header.sender_id, header.start) == (
            mine.address,
            mine.sender_id,
            mine.start(self._config.dialect),
        )

    def _is_muted(self, header: DatagramHeader) -> bool:
        """Whether this is a message of our own, and our own data is not received."""
        if self._hears_own or not self._is_own(header):
            return False
        if self._is_v6:
            self._own_host = self._source.host
        return True

    def _mind_java(self, header: DatagramHeader) -> None:
        """A sender of control messages without our mark may be a Java program."""
        if not is_marked(header.address, header.application_id):
            self._may_have_java = False
            self._sender.java_heard()

    def _keep_apart(self, now_ns: int) -> None:
        """Before the first announcement: choose an identity that is not in use in the group."""
        taken = self._roster.java_sums()
        mine = self._sender.identity
        if self._sender.last_seq == 0 and java_sum(mine.sender_id, mine.start_ms) in taken:
            self._become_another(taken, now_ns)

    def _mind_collision(self, other: SenderInfo, now_ns: int) -> None:
        mine = self._sender.identity
        start = mine.start(self._config.dialect)
        other_sum = java_sum(other.sender_id, other.start)
        if other_sum != java_sum(mine.sender_id, start) or not self._sender.publisher_count:
            return
        if self._sender.last_seq == 0:
            self._become_another({other_sum}, now_ns)
        else:
            host, port = self._group.host, self._group.port
            self._deliveries.add(IdentityTaken(group=host, port=port, sender=other))

    def _become_another(self, taken_sums: set[int], now_ns: int) -> None:
        mine = self._sender.identity
        start_ms = draw_start_ms(
            sender_id=mine.sender_id,
            wall_ms=mine.start_ms,
            rng=self._rng,
            taken_sums=taken_sums,
        )
        self._sender.become(replace(mine, start_ms=start_ms), now_ns)

    def _is_other_dialect(self, group: bytes) -> bool:
        """Whether the group in a message is ours turned round."""
        mine = self._wire.address(self._group_bytes)
        return group != mine and group == mine[::-1]

    def _drop(self, fault: DropReason, source: Address, now_ns: int) -> None:
        self._faults[fault] += 1
        if fault is not DropReason.FAKE:
            reason = _TRACED_REASONS.get(fault, DropReason.MALFORMED)
            self._tracer.emit(DatagramDropped(now_ns=now_ns, source=str(source), reason=reason))
