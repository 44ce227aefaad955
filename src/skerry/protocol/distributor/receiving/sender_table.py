"""The senders of a group that a connection knows, and the requests that are due to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Final

from skerry.limits import DISTRIBUTOR_SENDER_COUNT_MAX
from skerry.protocol.distributor.config import Dialect, DistributorConfig
from skerry.protocol.distributor.events import (
    OtherDialect,
    RemovalReason,
    SenderFound,
    SenderInfo,
    SenderRemoved,
    SendersRefused,
)
from skerry.protocol.distributor.identity import is_marked, java_sum
from skerry.protocol.distributor.messages import DatagramHeader
from skerry.protocol.distributor.receiving.deliveries import Deliveries
from skerry.protocol.distributor.receiving.gaps import ReorderBuffer
from skerry.protocol.distributor.receiving.link_quality import LinkCounts, LinkReport
from skerry.protocol.distributor.receiving.receiver import Receiver
from skerry.protocol.distributor.receiving.remote_senders import (
    SILENT_HEARTBEAT_COUNT,
    Departed,
    RemoteSender,
)
from skerry.protocol.distributor.receiving.stream_start import StartSearch, StreamOrigin
from skerry.protocol.distributor.sending.flow import SendTurns
from skerry.protocol.distributor.subjects import Subjects
from skerry.protocol.distributor.wire import DatagramWire
from skerry.protocol.machine import Address

DueRequest = tuple[SenderInfo, int, int]
"""A request to be sent: the sender, first and last number. For a position request: the sender, a
number and the span in microseconds."""
_NOTHING: Final = LinkCounts()
_MS: Final = 1_000_000
_U32: Final = 0xFFFFFFFF
_FEW_COUNT: Final = 50
_ADVANCE_NS: Final = 20_000
"""With more than a few senders, `advance` is called no sooner than after this time for each of
them: ten times as long as it takes."""
_CLOCK_SLACK_MS: Final = 20
"""Start times have whole milliseconds, and synchronised clocks still differ a little."""


class SenderTable:
    """Senders by their key: the 12 bytes of address, sender id and start in their headers."""

    def __init__(
        self,
        *,
        group: Address,
        config: DistributorConfig,
        wire: DatagramWire,
        subjects: Subjects,
        deliveries: Deliveries,
        rng: Random,
        wall_offset_ns: int | None = None,
    ) -> None:
        """`wall_offset_ns` is wall time less monotonic time; None if unknown."""
        self._wall_offset_ns = wall_offset_ns
        self.is_listening = False
        """Whether received data is delivered."""
        self.listening_ns: int | None = None
        """The time of the first subscription; None if there is none."""
        self._unannounced: dict[bytes, None] = {}
        """The senders in `remotes` that have not announced themselves, oldest first."""
        self._group = group
        self._config = config
        self._wire = wire
        self._subjects = subjects
        self._deliveries = deliveries
        self._rng = rng
        self._room = ReorderBuffer(config.waiting_bytes_max)
        self._turns = SendTurns()
        self._departed = Departed()
        self._removed_links: deque[LinkReport] = deque(maxlen=DISTRIBUTOR_SENDER_COUNT_MAX)
        """Counts of removed senders until they are taken; the oldest are discarded first."""
        self._positions: list[DueRequest] = []
        self._foreign: dict[bytes, None] = {}
        self._has_refused = False
        self._lost_count = 0
        self._pieces_fault_count = 0
        self.remotes: dict[bytes, RemoteSender] = {}
        self.due_ns: int | None = None
        """When to call `advance`: when anything is due, or a little later with many senders."""
        self._advanced_ns = 0

    def __len__(self) -> int:
        return len(self.remotes)

    @property
    def lost_count(self) -> int:
        """Datagrams that were reported as lost."""
        return self._lost_count + sum(receiver.delivery.lost_count for receiver in self.receivers())

    @property
    def pieces_fault_count(self) -> int:
        """Large updates whose pieces did not add up."""
        now = sum(receiver.delivery.pieces_fault_count for receiver in self.receivers())
        return self._pieces_fault_count + now

    def receivers(self) -> Iterator[Receiver]:
        return (remote.receiver for remote in self.remotes.values())

    def take_links(self) -> list[LinkReport]:
        """Return the counts of each sender since the last call, where there are any."""
        links = list(self._removed_links)
        self._removed_links.clear()
        links += [LinkReport(sender=r.sender, counts=r.take_counts()) for r in self.receivers()]
        return [link for link in links if link.counts != _NOTHING]

    def announced(self) -> list[SenderFound]:
        """Return the events about the senders that have announced themselves."""
        return [
            self._found(remote.receiver.sender)
            for remote in self.remotes.values()
            if remote.is_announced
        ]

    def java_sums(self) -> set[int]:
        """Return the sums by which Java programs distinguish these senders."""
        return {java_sum(r.sender.sender_id, r.sender.start) for r in self.receivers()}

    def may_miss(self, key: bytes) -> bool:
        """Return whether updates of a leaving sender that is not in `remotes` may be missing."""
        return self.listening_ns is not None and key not in self._departed

    def add(
        self, key: bytes, header: DatagramHeader, now_ns: int, address: str = ""
    ) -> RemoteSender | None:
        """Add a sender that is unknown or has returned; return None if there are too many.

        `address` is the source of its datagrams, for groups whose headers do not have it.
        """
        info = sender_info(header, address=address)
        if len(self.remotes) >= DISTRIBUTOR_SENDER_COUNT_MAX and self._unannounced:
            # Forged datagrams add senders, so a sender without an announcement is removed first.
            oldest = next(iter(self._unannounced))
            self._remove(oldest, self.remotes[oldest], RemovalReason.SILENT, now_ns)
        if len(self.remotes) >= DISTRIBUTOR_SENDER_COUNT_MAX:
            if not self._has_refused:
                self._has_refused = True
                host, port = self._group.host, self._group.port
                self._deliveries.add(SendersRefused(group=host, port=port, sender=info))
            return None
        receiver = Receiver(
            sender=info,
            config=self._config,
            text_length_bytes=self._wire.text_length_bytes,
            subjects=self._subjects,
            deliveries=self._deliveries,
            room=self._room,
            rng=self._rng,
            origin=self._origin(key, header, now_ns),
            since_ns=self._since_ns(),
            is_asked=self._is_asked(header),
        )
        next_seq = self._departed.take(key)
        if next_seq is not None:
            receiver.resume(next_seq)
        since_ns = now_ns if self.listening_ns is None else self.listening_ns
        remote = RemoteSender(receiver, self._config, now_ns, now_ns - since_ns)
        self.remotes[key] = remote
        self._unannounced[key] = None
        self.due_at(remote.due_ns())
        return remote

    def introduce(self, key: bytes, remote: RemoteSender, info: SenderInfo) -> None:
        """Record and report the first announcement of a sender."""
        self._unannounced.pop(key, None)
        remote.receiver.delivery.sender = info
        self._deliveries.add(self._found(info))

    def advance(self, now_ns: int) -> list[DueRequest]:
        """Remove senders that are gone; return the repair requests that are due."""
        self.due_ns = None
        self._advanced_ns = now_ns
        asked: list[DueRequest] = []
        for key, remote in list(self.remotes.items()):
            receiver = remote.receiver
            ranges = receiver.take_requests(now_ns)
            asked += [(receiver.sender, first, last) for first, last in ranges]
            search = receiver.start.search
            if search is not None and now_ns >= search.due_ns:
                self._search(receiver, search, now_ns)
            reason = remote.removal(now_ns)
            if reason is None:
                self.due_at(remote.due_ns())
            else:
                self._remove(key, remote, reason, now_ns)
        return asked

    def due_at(self, due_ns: int | None) -> None:
        """Note that a sender needs `advance` at this time."""
        if due_ns is None:
            return
        if len(self.remotes) > _FEW_COUNT:
            # `advance` visits all senders, and each of them may be due at another time.
            due_ns = max(due_ns, self._advanced_ns + len(self.remotes) * _ADVANCE_NS)
        if self.due_ns is None or due_ns < self.due_ns:
            self.due_ns = due_ns

    def take_positions(self) -> list[DueRequest]:
        """Return the position requests to be sent since the last call."""
        positions, self._positions = self._positions, []
        return positions

    def listen(self, now_ns: int | None) -> None:
        """Note the time of the first subscription."""
        self.listening_ns = now_ns
        for receiver in self.receivers():
            receiver.start.since_ns = now_ns

    def desynchronise(self) -> None:
        """Forget all streams, because there are no subscriptions."""
        self.listening_ns = None
        self._positions.clear()
        self._departed.clear()
        for receiver in self.receivers():
            receiver.desynchronise()

    # -- senders of the other dialect

    def is_foreign(self, key: bytes) -> bool:
        """Return whether a sender is known to use the other dialect."""
        return key in self._foreign

    def add_foreign(self, key: bytes) -> None:
        """Note that a sender uses the other dialect, in which addresses have reversed bytes."""
        if not self._foreign:
            address = dotted(self._wire.address(key[:4])[::-1])
            host, port = self._group.host, self._group.port
            self._deliveries.add(OtherDialect(group=host, port=port, address=address))
        if len(self._foreign) < DISTRIBUTOR_SENDER_COUNT_MAX:
            self._foreign[key] = None
            remote = self.remotes.pop(key, None)
            self._unannounced.pop(key, None)
            if remote is not None:
                remote.receiver.desynchronise()
                self._keep_counts(remote.receiver)

    # -- inside

    def _found(self, sender: SenderInfo) -> SenderFound:
        return SenderFound(group=self._group.host, port=self._group.port, sender=sender)

    def _is_asked(self, header: DatagramHeader) -> bool:
        """Return whether a sender answers position requests: those of this project do."""
        is_java_wire = self._config.dialect is Dialect.JAVA
        return is_java_wire and is_marked(header.address, header.application_id)

    def _since_ns(self) -> int | None:
        """Return the time from which on updates of new senders have to be delivered."""
        since_ns, forgot_ns = self.listening_ns, self._departed.forgot_ns
        # An unknown sender may be one that was delivered before and has been forgotten.
        return since_ns if since_ns is None or forgot_ns is None else max(since_ns, forgot_ns)

    def _search(self, receiver: Receiver, search: StartSearch, now_ns: int) -> None:
        """Queue the position request of a receiver, or postpone it if there are too many."""
        if not self._turns.take(now_ns):
            search.postpone(now_ns)
            return
        request = receiver.take_position_request(now_ns)
        if request is not None:
            self._positions.append((receiver.sender, *request))

    def _origin(self, key: bytes, header: DatagramHeader, now_ns: int) -> StreamOrigin:
        """Return what is known about the start of the stream of a sender that does not answer."""
        since_ns = self.listening_ns
        if since_ns is None or key in self._departed or self._is_asked(header):
            return StreamOrigin.UNKNOWN
        forgot_ns = self._departed.forgot_ns
        if self._has_started(header, max(since_ns, forgot_ns or since_ns), now_ns):
            return StreamOrigin.STARTED
        silent_ns = SILENT_HEARTBEAT_COUNT * self._config.heartbeat_interval_ms * _MS
        if forgot_ns is None and now_ns - since_ns >= silent_ns:
            return StreamOrigin.SILENT
        return StreamOrigin.UNKNOWN

    def _has_started(self, header: DatagramHeader, since_ns: int, now_ns: int) -> bool:
        """Return whether a sender started after `since_ns`, by the clock of the sender."""
        if self._wall_offset_ns is None or self._config.dialect is not Dialect.JAVA:
            return False
        # Low bits only, so times are compared by their distance. The result is false for a clock
        # that is wrong by more than the time that this connection has listened.
        wall_ms = (now_ns + self._wall_offset_ns) // _MS
        age_ms = (wall_ms - header.start + _CLOCK_SLACK_MS) & _U32
        return age_ms * _MS < now_ns - since_ns + _CLOCK_SLACK_MS * _MS

    def _remove(self, key: bytes, remote: RemoteSender, reason: RemovalReason, now_ns: int) -> None:
        receiver = remote.receiver
        receiver.end(now_ns)
        del self.remotes[key]
        self._unannounced.pop(key, None)
        self._departed.add(key, receiver.next_seq, now_ns)
        self._removed_links.append(
            LinkReport(sender=receiver.sender, counts=receiver.take_counts())
        )
        self._keep_counts(receiver)
        self._has_refused = False
        if remote.is_announced:
            host, port, info = self._group.host, self._group.port, receiver.sender
            event = SenderRemoved(group=host, port=port, sender=info, reason=reason)
            self._deliveries.add(event)

    def _keep_counts(self, receiver: Receiver) -> None:
        """Keep the counts of a receiver that is removed."""
        self._lost_count += receiver.delivery.lost_count
        self._pieces_fault_count += receiver.delivery.pieces_fault_count


def sender_info(
    header: DatagramHeader, start: int | None = None, application: str = "", address: str = ""
) -> SenderInfo:
    """Return a sender as described by its header and, if there is one, its announcement."""
    return SenderInfo(
        address=address or dotted(header.address),
        sender_id=header.sender_id,
        start=header.start if start is None else start,
        application_id=header.application_id,
        application=application,
    )


def dotted(address: bytes) -> str:
    """Return the four bytes of an address in dotted form."""
    return ".".join(map(str, address))
