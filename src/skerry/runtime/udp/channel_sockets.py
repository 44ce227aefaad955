"""The sockets of one channel of a node: one for unicast and for sending, and one per group.

Each group has a socket of its own, bound to the group, so that a datagram is known by its socket to
be of the group, and datagrams to other groups of other programs are not received. All datagrams are
sent from the unicast socket, so that answers reach this node and not another one of this computer.

An error never ends the use of a socket. If the interface is gone, all sockets of the channel are
closed, and opened again as soon as the interface is back.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Final

from skerry.engine.system.system_core import Received
from skerry.protocol.machine import Address
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.udp.datagrams import (
    drop_source,
    has_segmentation,
    kernel_drop_count,
    segment_option,
    set_buffers,
    start_coalescing,
)
from skerry.runtime.udp.group_membership import (
    SocketAddress,
    choose_way,
    join,
    rejoin,
    socket_address,
)
from skerry.runtime.udp.interfaces import Interface, list_addresses
from skerry.runtime.udp.segmentation import segment_size, segments_stop

_READ_COUNT_MAX: Final = 256
"""Reads of one socket before the others are looked after."""
_RECEIVE_BYTES: Final = 65_535
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(4)
_DONT_WAIT: Final = int(socket.MSG_DONTWAIT)
_BUFFER_BYTES_LOW: Final = 106_496
"""A receive buffer below this size holds hardly one window of each of several senders."""
_SOURCE_COUNT_MAX: Final = 4096
_MTU_DISCOVER: Final = {False: (socket.IPPROTO_IP, 10), True: (socket.IPPROTO_IPV6, 23)}
"""Level and number of the option, by whether it is IPv6."""
_NEVER_DIVIDE: Final = 3
"""The datagram is dropped where it does not fit, whatever is known of the way."""
_SILENCE_NS_MAX: Final = 8_000_000_000
"""After so long without a datagram from others a group is left and joined again, in case a switch
has forgotten that it is joined here."""
_RETRY_NS: Final = 100_000_000
"""Time between two attempts to open the sockets again."""
_PENDING_BYTES_MAX: Final = 4 * 1024 * 1024
"""Bytes that wait for room in the send buffer of the kernel. Further ones are dropped, as a network
would, and repaired."""
_SEGMENTATION_ERRORS: Final = (errno.EINVAL, errno.EIO, errno.EMSGSIZE)

log = logging.getLogger(__name__)


class ChannelSockets:
    def __init__(
        self,
        address: Address,
        interface: Interface,
        *,
        groups: Sequence[Address],
        ttls: Mapping[Address, int],
        buffer_bytes: int,
        now_ns: int,
    ) -> None:
        """Open the sockets; OSError if that is not possible.

        `ttls` are the multicast TTLs of all groups to which is sent.
        """
        self.address = address
        self.interface = interface
        self.groups = tuple(groups)
        self.on_change: Callable[[], None] = _ignore
        """Called when sockets were closed or opened."""
        self.send_error_count = 0
        self.dropped_count = 0
        """Datagrams that were not sent: without an interface, or without room in the buffer."""
        self.reopened_count = 0
        self.rejoined_count = 0
        self._is_v6 = ":" in address.host
        self._ttls = ttls
        self._ttl = -1
        self._buffer_bytes = buffer_bytes
        self._sources: dict[Any, Address] = {}
        self._destinations: dict[Address, SocketAddress] = {}
        self._pending: deque[tuple[list[bytes], Address]] = deque()
        self._pending_bytes = 0
        self._drop_count = 0
        """Drops of sockets that are closed."""
        self._own_counts: dict[Address, int] = {}
        """How often the kernel has dropped what this node sent to a group, at the open socket."""
        self._retry_ns = 0
        self._usable_ns = 0
        """When the interface was found usable after a send error."""
        self._heard_ns: dict[Address, int] = {}
        """When a datagram of another node was received in a group, or the group was joined."""
        self._sends_trains = True
        self._receives_trains = True
        self._unicast: socket.socket | None = None
        self._by_group: dict[Address, socket.socket] = {}
        self._warned = False
        self._unreachable: set[Address] = set()
        """Destinations to which nothing could be sent, which was logged."""
        self._open(now_ns)

    # -- state

    @property
    def is_open(self) -> bool:
        """Whether the interface is there."""
        return self._unicast is not None

    @property
    def is_loopback(self) -> bool:
        """Whether only this computer is reached. An interface may have addresses of others, too."""
        return self.interface.is_loopback and ip_address(self.address.host).is_loopback

    @property
    def is_waiting(self) -> bool:
        """Whether datagrams wait for room in the send buffer."""
        return bool(self._pending)

    @property
    def sending(self) -> socket.socket | None:
        """The socket that sends; None while the interface is gone."""
        return self._unicast

    def sockets(self) -> list[tuple[socket.socket, Address]]:
        """The open sockets, each with the address to which its datagrams are sent."""
        if self._unicast is None:
            return []
        return [(self._unicast, self.address), *((one, at) for at, one in self._by_group.items())]

    def drop_count(self) -> int:
        """Datagrams that the kernel has dropped because a receive buffer was full."""
        return self._drop_count + sum(self._lost_count(*one) for one in self.sockets())

    # -- receiving

    def read(
        self, made: socket.socket, destination: Address, into: deque[Received], now_ns: int
    ) -> int:
        """Read what waits at a socket, up to a bound; returns its bytes."""
        own = self.address
        total = 0
        recvmsg, sources, append = made.recvmsg, self._sources, into.append
        for _ in range(_READ_COUNT_MAX):
            try:
                data, ancillary, _, source = recvmsg(_RECEIVE_BYTES, _ANCILLARY_BYTES, _DONT_WAIT)
            except BlockingIOError:
                break
            except OSError:
                # It reports what became of an earlier datagram, and the next read succeeds.
                continue
            address = sources.get(source)
            if address is None:
                address = self._source(source)
            if address == own:
                # What this node sent to a group, where the kernel has no filters.
                continue
            if destination is not own:
                self._heard_ns[destination] = now_ns
            total += len(data)
            size = segment_size(ancillary) if ancillary else 0
            if size == 0 or len(data) <= size:
                append((data, address, destination))
            else:
                for at in range(0, len(data), size):
                    append((data[at : at + size], address, destination))
        return total

    # -- sending

    def send(self, datagrams: list[bytes], destination: Address, now_ns: int) -> None:
        """Send datagrams in order. What cannot be sent is dropped, and counted."""
        if self._unicast is None:
            self._retry(now_ns)
        if self._unicast is None:
            self.dropped_count += len(datagrams)
            return
        if self._pending:
            self._defer(datagrams, destination)
            return
        self._send(self._unicast, datagrams, destination)

    def send_pending(self) -> None:
        """Send what waited for room in the send buffer."""
        pending, self._pending, self._pending_bytes = self._pending, deque(), 0
        while pending:
            datagrams, destination = pending.popleft()
            if self._unicast is None:
                self.dropped_count += len(datagrams)
            elif self._pending:
                self._defer(datagrams, destination)
            else:
                self._send(self._unicast, datagrams, destination)

    def send_whole(self, datagrams: list[tuple[Address, bytes]]) -> None:
        """Send datagrams that the network drops where they do not fit; losses are not counted."""
        made = self._unicast
        if made is None:
            return
        level, option = _MTU_DISCOVER[self._is_v6]
        before = made.getsockopt(level, option)
        made.setsockopt(level, option, _NEVER_DIVIDE)
        try:
            for destination, data in datagrams:
                with suppress(OSError):  # Such as EMSGSIZE, if the interface is too small.
                    made.sendto(data, _DONT_WAIT, socket_address(destination, self.interface))
        finally:
            made.setsockopt(level, option, before)

    # -- interfaces

    def check(self, now_ns: int) -> None:
        """Close the sockets if the interface is gone, open them again, renew silent groups."""
        if self._unicast is None:
            self._retry(now_ns)
            return
        reason = self._fault()
        if reason:
            self._lose(reason)
            return
        for group, heard_ns in self._heard_ns.items():
            if now_ns - heard_ns >= _SILENCE_NS_MAX:
                self._rejoin(group, now_ns)

    def close(self) -> None:
        made = self.sockets()
        self._unicast = None
        self._by_group = {}
        # Before they are closed, so that the loop stops to look at them.
        self.on_change()
        for one, address in made:
            self._drop_count += self._lost_count(one, address)
            one.close()

    # -- inside: opening

    def _lost_count(self, made: socket.socket, address: Address) -> int:
        """Datagrams that were dropped because the receive buffer of a socket was full. The kernel
        counts those that it drops on purpose as well."""
        return max(0, (kernel_drop_count(made) or 0) - self._own_counts.get(address, 0))

    def _open(self, now_ns: int) -> None:
        family = socket.AF_INET6 if self._is_v6 else socket.AF_INET
        made = socket.socket(family, socket.SOCK_DGRAM)
        by_group: dict[Address, socket.socket] = {}
        own_counts: dict[Address, int] = {}
        try:
            made.bind(socket_address(self.address, self.interface))
            if self.address.port == 0:
                self.address = Address(self.address.host, made.getsockname()[1])
            self._prepare(made)
            choose_way(made, self.address, self.interface)
            for group in self.groups:
                by_group[group] = one = socket.socket(family, socket.SOCK_DGRAM)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.bind(socket_address(group, self.interface))
                self._prepare(one)
                join(one, group, self.address, self.interface)
                # The node does not wake up for what it sends itself.
                if drop_source(one, self.address.host, self.address.port):
                    own_counts[group] = 0
        except BaseException:
            for one in (made, *by_group.values()):
                one.close()
            raise
        self._unicast, self._by_group = made, by_group
        self._own_counts = own_counts
        self._ttl = -1
        self._destinations.clear()
        self._heard_ns = dict.fromkeys(self.groups, now_ns)
        self._sends_trains = has_segmentation(made)

    def _prepare(self, made: socket.socket) -> None:
        made.setblocking(False)
        receive, _ = set_buffers(made, self._buffer_bytes)
        self._receives_trains = start_coalescing(made)
        if receive.bytes < _BUFFER_BYTES_LOW and not self._warned:
            self._warned = True
            log.warning(
                "the receive buffer is small, so datagrams may be lost",
                extra={
                    "address": self.address.text,
                    "bytes": receive.bytes,
                    "hint": f"sysctl -w {receive.sysctl}={receive.asked_bytes}",
                },
            )

    def _rejoin(self, group: Address, now_ns: int) -> None:
        self._heard_ns[group] = now_ns
        try:
            rejoin(self._by_group[group], group, self.address, self.interface)
        except OSError as error:
            self._lose(error.strerror or str(error))
        else:
            self.rejoined_count += 1

    # -- inside: loss of the interface

    def _fault(self) -> str:
        """Why the interface is not usable; empty if it is."""
        name = self.interface.name
        if not name:
            return ""
        try:
            index = socket.if_nametoindex(name)
        except OSError as error:
            return error.strerror or str(error)
        if index != self.interface.index:
            return "the interface was replaced"
        family = socket.AF_INET6 if self._is_v6 else socket.AF_INET
        for one in list_addresses(family):
            if one.index == index and one.address == self.address.host:
                return "" if one.is_up else "the interface is down"
        return "the interface has lost its address"

    def _lose(self, reason: str) -> None:
        log.warning(
            "the sockets of a channel are closed until its interface is back",
            extra={"address": self.address.text, "reason": reason},
        )
        self.close()
        self.dropped_count += sum(len(one) for one, _ in self._pending)
        self._pending.clear()
        self._pending_bytes = 0

    def _retry(self, now_ns: int) -> None:
        """Open the sockets again if the interface is back."""
        if now_ns < self._retry_ns:
            return
        self._retry_ns = now_ns + _RETRY_NS
        name = self.interface.name
        try:
            if name:
                # An interface that was removed and added has another index.
                self.interface = replace(self.interface, index=socket.if_nametoindex(name))
            if self._fault():
                return
            self._open(now_ns)
        except OSError:
            return
        self.reopened_count += 1
        log.info("the sockets of a channel are open again", extra={"address": self.address.text})
        self.on_change()

    # -- inside: sending

    def _send(self, made: socket.socket, datagrams: list[bytes], destination: Address) -> None:
        where = self._destinations.get(destination)
        if where is None:
            where = self._destinations[destination] = socket_address(destination, self.interface)
        first, count = 0, len(datagrams)
        while first < count:
            stop = first + 1
            if self._sends_trains and stop < count:
                stop = segments_stop(datagrams, first)
            try:
                self._set_ttl(made, destination)
                self._send_some(made, datagrams[first:stop], destination, where)
            except BlockingIOError:
                self._defer(datagrams[first:], destination)
                return
            except OSError as error:
                if stop > first + 1 and error.errno in _SEGMENTATION_ERRORS:
                    # The route does not support segmentation.
                    self._sends_trains = False
                    continue
                if error.errno == errno.ECONNREFUSED:
                    # It reports what became of an earlier datagram; this one was not sent.
                    self._send_again(made, datagrams[first:stop], destination, where)
                elif self._failed(error, destination, stop - first):
                    self.dropped_count += count - stop
                    return
            else:
                if self._unreachable:
                    self._unreachable.discard(destination)
            first = stop

    def _send_some(
        self,
        made: socket.socket,
        datagrams: list[bytes],
        destination: Address,
        where: SocketAddress,
    ) -> None:
        if len(datagrams) == 1:
            made.sendto(datagrams[0], _DONT_WAIT, where)
        else:
            option = segment_option(len(datagrams[0]))
            made.sendmsg(datagrams, option, _DONT_WAIT, where)
        if destination in self._own_counts:
            # What one call sends is received as one, where the kernel can do that.
            self._own_counts[destination] += 1 if self._receives_trains else len(datagrams)

    def _send_again(
        self,
        made: socket.socket,
        datagrams: list[bytes],
        destination: Address,
        where: SocketAddress,
    ) -> None:
        try:
            self._send_some(made, datagrams, destination, where)
        except OSError as error:
            self._failed(error, destination, len(datagrams))

    def _failed(self, error: OSError, destination: Address, count: int) -> bool:
        """Count datagrams that were not sent; whether the sockets were closed because of that.

        The first failure of a destination is logged, until something can be sent to it again.
        """
        self.send_error_count += 1
        self.dropped_count += count
        now_ns = monotonic_ns()
        if now_ns - self._usable_ns < _RETRY_NS:
            return False
        if not self._fault():
            # There is no way to this destination, or it is refused by a rule of this computer.
            self._usable_ns = now_ns
            if destination not in self._unreachable and len(self._unreachable) < _SOURCE_COUNT_MAX:
                self._unreachable.add(destination)
                facts = {"address": self.address.text, "destination": destination.text}
                reason = error.strerror or str(error)
                log.warning("datagrams cannot be sent", extra={**facts, "reason": reason})
            return False
        self._lose(error.strerror or str(error))
        return True

    def _set_ttl(self, made: socket.socket, destination: Address) -> None:
        ttl = self._ttls.get(destination, self._ttl)
        if ttl != self._ttl:
            if self._is_v6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
            else:
                made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            self._ttl = ttl

    def _defer(self, datagrams: list[bytes], destination: Address) -> None:
        """Keep datagrams until the send buffer has room."""
        size = sum(map(len, datagrams))
        if self._pending_bytes + size > _PENDING_BYTES_MAX:
            self.dropped_count += len(datagrams)
            return
        self._pending.append((datagrams, destination))
        self._pending_bytes += size

    def _source(self, source: Any) -> Address:
        if len(self._sources) >= _SOURCE_COUNT_MAX:
            self._sources.clear()
        address = self._sources[source] = Address(source[0].partition("%")[0], source[1])
        return address


def _ignore() -> None:
    pass
