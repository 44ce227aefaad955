"""A connection to a group: the machine that a runtime drives, composed of a sender and receivers.

Data takes the short path: a few checks of the header, then the stream of its sender. Control
messages are decoded and processed by `control_intake`. The machine knows no sockets; what is to be
sent to the group is taken as transmits. A seal, if there is one, is applied and removed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from mypy_extensions import mypyc_attr

from skerry.errors import ConfigError
from skerry.protocol.deadlines import earliest
from skerry.protocol.distributor.config import Dialect, DistributorConfig
from skerry.protocol.distributor.control_intake import ControlIntake, OwnIdentity
from skerry.protocol.distributor.events import (
    CommunicationFailed,
    ConnectionClosed,
    Direction,
    DistributorStatistics,
    Nagging,
    SenderFound,
)
from skerry.protocol.distributor.identity import SenderIdentity, address_bytes
from skerry.protocol.distributor.messages import (
    DATAGRAM_DROPS,
    HEADER_BYTES,
    RETRANSMISSION,
    START,
    UPDATE,
    UPDATE_HEADER_BYTES,
)
from skerry.protocol.distributor.receiving.deliveries import Deliveries, DeliveryBatch
from skerry.protocol.distributor.receiving.link_quality import LinkReport
from skerry.protocol.distributor.receiving.nagging import NaggingMonitor
from skerry.protocol.distributor.receiving.sender_table import SenderTable, dotted
from skerry.protocol.distributor.sending.packing import Packer
from skerry.protocol.distributor.sending.sender import Sender
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import MAJOR_VERSION, wire_of
from skerry.protocol.machine import Address, MachineEvent, Transmit
from skerry.protocol.patterns import PatternHandle
from skerry.protocol.sealing.seal import Seal
from skerry.tracing import NO_TRACE, DatagramDropped, DropReason, Tracer

_MS: Final = 1_000_000
_TRACED_REASONS: Final = {
    DropReason.DUPLICATE: DropReason.DUPLICATE,
    DropReason.SENDERS: DropReason.STRANGER,
    DropReason.SEAL: DropReason.STRANGER,
}
"""Trace events have one of three reasons; all others are traced as malformed."""


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupConnection:
    """The connection to one multicast group and port, for publishers and subscribers."""

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
        is for a connection that does not receive its own data: it is not a sender to itself.
        """
        self._group = group
        self._config = config = config or DistributorConfig()
        if config.key_file and seal is None:
            # Otherwise a caller that forgets to make the seal would send everything in clear.
            raise ConfigError(
                key="distributor.key_file",
                origin=config.key_file,
                detail="a key file is configured, but the connection was given no seal",
                hint="pass skerry.runtime.key_files.open_seal(...) as the seal",
            )
        self._rng = rng
        self._seal = seal
        self._tracer = tracer
        wire = wire_of(config.dialect)
        self._deliveries = Deliveries()
        self._sender = Sender(
            identity=identity,
            group=address_bytes(group.host),
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
        self._senders = SenderTable(
            group=group,
            config=config,
            wire=wire,
            subjects=self._subjects,
            deliveries=self._deliveries,
            rng=rng,
            wall_offset_ns=wall_offset_ns,
        )
        self._identity = OwnIdentity(
            self._sender,
            dialect=config.dialect,
            group=group,
            deliveries=self._deliveries,
            rng=rng,
        )
        self._control = ControlIntake(
            sender=self._sender,
            senders=self._senders,
            identity=self._identity,
            wire=wire,
            group=group,
            hears_own=hears_own,
            # Java programs cannot take part in a sealed group.
            may_have_java=seal is None and config.dialect is Dialect.JAVA,
        )
        self._nagging = NaggingMonitor(
            window_ns=config.nagging_window_ms * _MS,
            check_ns=config.nagging_check_ms * _MS,
            request_count_max=config.nagging_request_count_max,
            now_ns=now_ns,
        )
        self._closed_ns: int | None = None
        self._is_closing = False
        # Datagrams that are sealed, or dropped on purpose, are processed one by one.
        self._may_run = seal is None and not config.fake_receive_loss_permille
        self._requests: list[bytes] = []
        self._drops = dict.fromkeys(DATAGRAM_DROPS, 0)
        self._received_update_count = 0
        self._received_datagram_count = 0
        self._received_byte_count = 0
        self._requests_sent_count = 0
        self.publish = self._sender.publish
        """`publish(subject, data, now_ns)`. LocalProtocolError for an invalid subject or without a
        publisher, WouldBlock while the bandwidth is used up, LimitExceeded for a large update."""
        self.publish_many = self._sender.publish_many
        """`publish_many(updates, first, now_ns)`: publish from index `first` on; return how many
        were accepted."""
        self.publish_pieces = self._sender.publish_pieces
        """`publish_pieces(pieces, now_ns)`: the same for updates with encoded heads."""

    # -- for the application

    @property
    def identity(self) -> SenderIdentity:
        return self._sender.identity

    @property
    def own_host(self) -> str:
        """The address of this connection as text. In an IPv6 group it is the source of its own
        datagrams once one was received, and a placeholder until then."""
        return self._control.own_host or dotted(self._sender.identity.address)

    def open_publisher(self, now_ns: int) -> None:
        """Add a publisher; the first one is announced to the group."""
        if not self._sender.publisher_count:
            self._identity.avoid(self._senders.java_sums(), now_ns)
        self._sender.open_publisher(now_ns)

    def close_publisher(self, now_ns: int) -> None:
        """Remove a publisher; after the last one a goodbye is sent to the group."""
        self._sender.close_publisher(now_ns)

    @property
    def checked_subjects(self) -> dict[str, bytes]:
        """Subjects that need no check, with their heads. Always the same object, read only."""
        return self._sender.heads

    @property
    def is_holding(self) -> bool:
        """Whether updates wait for others to share their datagram; `deadline_ns` ends that."""
        return self._sender.hold_until_ns > 0

    def may_send_later(self, bytes_max: int) -> bool:
        """Return whether datagrams that are ready may wait for more, up to this many bytes.

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
        """Whether `take_datagrams` would return any."""
        return len(self._sender.ready) > 0 or len(self._requests) > 0

    @property
    def packer(self) -> Packer:
        """The open datagram. An update may be put into it while it is held and has room."""
        return self._sender

    def ready_ns(self, now_ns: int) -> int:
        """Return when a publisher may continue: now, or when the bandwidth allows it."""
        return self._sender.ready_ns(now_ns)

    def flush(self, now_ns: int) -> None:
        """Send the updates that are held."""
        self._sender.flush(now_ns)

    def subscribe(self, pattern: str, value: object, now_ns: int | None = None) -> PatternHandle:
        """Deliver the updates that a pattern selects; `match` gives the values for a subject.

        The streams of senders that start after `now_ns` begin with their first datagram.
        """
        handle = self._subjects.add(pattern, value)
        self._listen_if_wanted()
        if self._senders.is_listening and self._senders.listening_ns is None:
            self._senders.listen(now_ns)
        return handle

    def unsubscribe(self, handle: PatternHandle) -> None:
        """Undo a `subscribe`."""
        self._subjects.remove(handle)
        self._listen_if_wanted()

    def match(self, subject: str) -> list[object]:
        """Return the values of all subscriptions that select a subject; cached by subject."""
        return self._subjects.match(subject)

    def known_senders(self) -> list[SenderFound]:
        """Return the senders that have announced themselves, for a later subscriber."""
        return self._senders.announced()

    def take_links(self) -> list[LinkReport]:
        """Return the counts of each sender since the last call, where there are any."""
        return self._senders.take_links()

    def number_updates(self) -> None:
        """Deliver updates with the numbers of their datagrams from now on."""
        self._deliveries.is_numbered = True

    def close(self, now_ns: int) -> None:
        """Close the connection. `ConnectionClosed` follows when the last requests are served."""
        if self._is_closing:
            return
        self._is_closing = True
        self._subjects.clear()
        self._listen_if_wanted()
        while self._sender.publisher_count:
            self._sender.close_publisher(now_ns)
        self._closed_ns = now_ns

    def failed(self, direction: Direction, reason: str) -> None:
        """Report an error of the socket. Datagrams that were not sent stay in the history, from
        which receivers request them."""
        self._deliveries.add(
            CommunicationFailed(
                group=self._group.host, port=self._group.port, direction=direction, reason=reason
            )
        )

    # -- for the driver

    def receive(self, data: bytes, source: Address, now_ns: int) -> None:
        """Process a datagram of the group."""
        if self._seal is not None:
            opened = self._seal.open(data)
            if opened is None:
                self._drop(DropReason.SEAL, source, now_ns)
                return
            data = opened
        if len(data) < HEADER_BYTES:
            reason: DropReason | None = DropReason.SHORT
        elif data[0] != MAJOR_VERSION:
            reason = DropReason.VERSION
        elif data[2] == UPDATE or data[2] == RETRANSMISSION:
            reason = self._receive_data(data, source, now_ns)
        else:
            reason = self._control.receive(data, source, now_ns)
        if reason is not None:
            self._drop(reason, source, now_ns)

    def receive_segments(self, data: bytes, size: int, source: Address, now_ns: int) -> None:
        """Process datagrams received in one call, each of `size` bytes except for the last."""
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
        if self._senders.due_ns is not None and now_ns >= self._senders.due_ns:
            self._send_requests(now_ns)
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
        """Return the events since the last call, oldest first."""
        return self._deliveries.take()

    def take_batches(self) -> list[MachineEvent | DeliveryBatch]:
        """Return the same with batches in place of `Delivered` events, which are slow to make."""
        return self._deliveries.take_batches()

    def take_transmits(self) -> Sequence[Transmit]:
        """Return what is to be sent to the group since the last call, in order."""
        group = self._group
        return [Transmit(destination=group, data=data) for data in self.take_datagrams()]

    def take_datagrams(self) -> list[bytes]:
        """Return the same without the destination, which is always the group."""
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
        """Return when `advance` has something to do."""
        due_ns = earliest(self._sender.deadline_ns(), self._senders.due_ns)
        due_ns = earliest(due_ns, self._nagging.due_ns)
        return due_ns if self._closed_ns is None else earliest(due_ns, self._served_ns())

    def statistics(self) -> DistributorStatistics:
        """Return the counters, and what is held now."""
        sender, senders, control = self._sender, self._senders, self._control
        receivers = list(senders.receivers())
        drops = self._drops | {
            DropReason.FAKE: self._drops[DropReason.FAKE] + sender.fake_loss_count,
            DropReason.SUBJECT: self._subjects.refused_count,
            DropReason.PIECES: senders.pieces_fault_count,
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
            requests_received_count=control.requests_received_count,
            requests_seen_count=control.requests_seen_count,
            naks_sent_count=sender.naks_sent_count,
            naks_received_count=control.naks_received_count,
            lost_datagram_count=senders.lost_count,
            faults={reason.value: count for reason, count in drops.items()},
            sender_count=len(senders),
            publisher_count=sender.publisher_count,
            subscription_count=len(self._subjects),
            missing_count=sum(len(receiver.gaps) for receiver in receivers),
            waiting_count=sum(len(receiver.waiting) for receiver in receivers),
            waiting_bytes=sum(receiver.waiting.size for receiver in receivers),
            cache_count=sender.cache_count,
            cache_bytes=sender.cache_bytes,
            last_seq=sender.last_seq,
            is_nagging=self._nagging.is_fired,
        )

    # -- inside

    def _receive_run(self, data: bytes, size: int, now_ns: int) -> int:
        """Process data of the usual form without copying datagrams; return where it ends."""
        if (
            not self._senders.is_listening
            or not self._may_run
            or len(data) < UPDATE_HEADER_BYTES
            or data[0] != MAJOR_VERSION
            or data[2] != UPDATE
        ):
            return 0
        remote = self._senders.remotes.get(data[4:16])
        if remote is None or remote.is_leaving:
            return 0
        receiver = remote.receiver
        stop = receiver.receive_run(data, size)
        if stop:
            remote.received_ns = now_ns
            self._received_datagram_count += (stop + size - 1) // size
            self._received_byte_count += stop
            self._received_update_count += receiver.delivery.run_update_count
        return stop

    def _receive_data(self, data: bytes, source: Address, now_ns: int) -> DropReason | None:
        if len(data) < UPDATE_HEADER_BYTES:
            return DropReason.SHORT
        permille = self._config.fake_receive_loss_permille
        if permille and self._rng.randrange(1000) < permille:
            return DropReason.FAKE
        self._received_datagram_count += 1
        self._received_byte_count += len(data)
        if data[2] == UPDATE and data[3] & START:
            # The count is not checked yet, and an update takes more than a byte.
            count = int.from_bytes(data[24:28], "big")
            self._received_update_count += min(count, len(data))
        if not self._senders.is_listening:
            return None
        remote = self._control.remote_sender(data, source, now_ns)
        if isinstance(remote, DropReason):
            return remote
        remote.received_ns = now_ns
        if remote.is_leaving:
            remote.data_received(int.from_bytes(data[20:24], "big"))
        receiver = remote.receiver
        reason = receiver.receive(data, now_ns)
        self._senders.due_at(receiver.due_ns)
        return reason

    def _listen_if_wanted(self) -> None:
        """Listen while there are subscriptions, unless the monitor of requests has fired."""
        self._senders.is_listening = len(self._subjects) > 0 and not self._nagging.is_fired
        if not self._senders.is_listening:
            self._senders.desynchronise()

    def _send_requests(self, now_ns: int) -> None:
        messages = self._sender.messages
        for sender, first_seq, last_seq in self._senders.advance(now_ns):
            self._requests_sent_count += 1
            self._nagging.requested()
            self._requests.append(messages.request_to(sender, first_seq, last_seq))
        for sender, seq, span_us in self._senders.take_positions():
            self._requests.append(messages.position_request_to(sender, seq, span_us))

    def _served_ns(self) -> int | None:
        """Return when a closing connection has served the last requests; None if unknown."""
        over_ns = self._sender.over_ns
        return None if self._closed_ns is None or over_ns is None else max(self._closed_ns, over_ns)

    def _drop(self, reason: DropReason, source: Address, now_ns: int) -> None:
        self._drops[reason] += 1
        if reason is not DropReason.FAKE:
            traced = _TRACED_REASONS.get(reason, DropReason.MALFORMED)
            self._tracer.emit(DatagramDropped(now_ns=now_ns, source=str(source), reason=traced))
