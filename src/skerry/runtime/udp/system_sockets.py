"""All sockets of a node in a system, and the datagrams that were read and wait for the machine.

Sockets are emptied before anything is parsed, into a queue per channel: the machine takes control
datagrams first, so decisions about membership never wait for data. If the loop does not come round,
because a handler blocks it, a thread empties the sockets in its place.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from skerry.engine.system.system_core import Received
from skerry.errors import ConnectFailed
from skerry.protocol.machine import Address
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.protocol.rtps.entities import Channel
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.loop_turns import LoopTurns
from skerry.runtime.udp.channel_sockets import ChannelSockets
from skerry.runtime.udp.datagrams import UDP_HEADS_V6, keep_memory
from skerry.runtime.udp.system_addresses import (
    NODE_INDEX_COUNT,
    LocalAddress,
    SystemNetworkConfig,
    find_local_address,
    unicast_port,
)

__all__ = ["SocketStatistics", "SystemSockets"]

_QUEUE_BYTES_MAX: Final = {Channel.CONTROL: 8 * 1024 * 1024, Channel.DATA: 32 * 1024 * 1024}
"""Bytes that wait for the machine. Beyond this the kernel keeps, and drops, what arrives."""
_GUARD_S: Final = 0.05
"""Interval at which the thread looks whether the loop still reads."""
_CHECK_NS: Final = 1_000_000_000
"""Interval at which the interfaces are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketStatistics:
    """Counters of the sockets of a node."""

    kernel_drop_count: int
    """Datagrams that were dropped because a receive buffer was full."""
    unsent_count: int
    """Datagrams that were not sent: the interface was gone, or the send buffer full."""
    send_error_count: int
    reopened_count: int
    """How often the sockets of a channel were opened again."""
    rejoined_count: int
    """How often a silent group was joined again."""
    guarded_bytes: int
    """Bytes that were read while the loop was blocked."""
    waiting_bytes: int
    """Bytes that were read and wait to be processed."""


class SystemSockets:
    """The sockets of both channels."""

    def __init__(
        self,
        config: SystemNetworkConfig,
        node_types: NodeTypes,
        own_type: NodeType,
        seed_groups: Sequence[Address] = (),
    ) -> None:
        """Open the sockets.

        ConfigError for an address that this computer does not have, ConnectFailed if the sockets
        cannot be opened.
        """
        self._lock = threading.Lock()
        self._queues: dict[Channel, deque[Received]] = {one: deque() for one in Channel}
        self._read_bytes = dict.fromkeys(Channel, 0)
        self._taken_bytes = dict.fromkeys(Channel, 0)
        self._read_count = 0
        """Counts reads by the loop."""
        self._guarded_count = 0
        self._guarded_bytes = 0
        self._check_ns = 0
        self._turns: LoopTurns | None = None
        self._wake: Callable[[], None] = _ignore
        self._guard: _Guard | None = None
        ttls = dict.fromkeys(seed_groups, own_type.multicast_ttl)
        for one in node_types:
            for channel in Channel:
                group = one.group(channel)
                if group is not None:
                    ttls[group] = one.multicast_ttl
        joined: dict[Channel, list[Address]] = {one: [] for one in Channel}
        joined[Channel.CONTROL] += seed_groups
        for channel in Channel:
            group = own_type.group(channel)
            if group is not None and group not in joined[Channel.CONTROL]:
                joined[channel].append(group)
        self._channels = _open_channels(config, joined, ttls)
        keep_memory()

    def address(self, channel: Channel) -> Address:
        """The unicast address of a channel."""
        return self._channels[channel].address

    @property
    def is_open(self) -> bool:
        """Whether the interfaces of both channels are there."""
        return all(one.is_open for one in self._channels.values())

    def start(self, turns: LoopTurns, wake: Callable[[], None]) -> None:
        """Read from now on; `wake` is called on the loop when there is something to process."""
        self._turns, self._wake = turns, wake
        for one in self._channels.values():
            one.on_change = self._watch
        self._watch()
        self._guard = _Guard(self._read_instead, wake)

    def take(self, channel: Channel, count_max: int) -> list[Received]:
        """The next datagrams of a channel, up to a number."""
        queue = self._queues[channel]
        # Only this thread removes datagrams.
        received = [queue.popleft() for _ in range(min(len(queue), count_max))]
        if received:
            self._taken_bytes[channel] += sum([len(data) for data, _, _ in received])
        return received

    def has_waiting(self) -> bool:
        """Whether datagrams wait to be processed."""
        return any(self._queues.values())

    def send(self, bursts: list[tuple[Channel, Address, list[bytes]]]) -> None:
        """Send datagrams, in the order of each channel."""
        now_ns = monotonic_ns()
        with self._lock:
            for channel, destination, datagrams in bursts:
                one = self._channels[channel]
                one.send(datagrams, destination, now_ns)
                if one.is_waiting:
                    self._await_room(one)

    def send_whole(self, channel: Channel, datagrams: list[tuple[Address, bytes]]) -> None:
        """Send datagrams that the network may not divide."""
        with self._lock:
            self._channels[channel].send_whole(datagrams)

    def mtu(self, channel: Channel) -> int:
        """The MTU of the interface of a channel."""
        return self._channels[channel].interface.mtu

    @property
    def loopback_bytes(self) -> int:
        """The largest datagram that the loopback interface carries in one piece; 0 if a channel has
        an address at which other computers may be reached."""
        if not all(one.is_loopback for one in self._channels.values()):
            return 0
        return min(self.mtu(one) for one in Channel) - UDP_HEADS_V6

    def check(self, now_ns: int) -> None:
        """Look at the interfaces, once a second."""
        if now_ns >= self._check_ns:
            self._check_ns = now_ns + _CHECK_NS
            with self._lock:
                for one in self._channels.values():
                    one.check(now_ns)

    def statistics(self) -> SocketStatistics:
        """All counters."""
        channels = self._channels.values()
        with self._lock:
            return SocketStatistics(
                kernel_drop_count=sum(one.drop_count() for one in channels),
                unsent_count=sum(one.dropped_count for one in channels),
                send_error_count=sum(one.send_error_count for one in channels),
                reopened_count=sum(one.reopened_count for one in channels),
                rejoined_count=sum(one.rejoined_count for one in channels),
                guarded_bytes=self._guarded_bytes,
                waiting_bytes=sum(self._waiting_bytes(one) for one in Channel),
            )

    def close(self) -> None:
        """Close all sockets. Afterwards the statistics are still there."""
        if self._guard is not None:
            self._guard.stop()
            self._guard = None
        with self._lock:
            self._unwatch()
            for one in self._channels.values():
                one.on_change = _ignore
                one.close()

    # -- inside: reading

    def _readable(self, channel: Channel, made: socket.socket, destination: Address) -> None:
        with self._lock:
            self._read_count += 1
            self._read(channel, made, destination)
        self._wake()

    def _read(self, channel: Channel, made: socket.socket, destination: Address) -> int:
        if self._waiting_bytes(channel) >= _QUEUE_BYTES_MAX[channel]:
            return 0
        size = self._channels[channel].read(
            made, destination, self._queues[channel], monotonic_ns()
        )
        self._read_bytes[channel] += size
        return size

    def _read_instead(self) -> bool:
        """Read in place of a blocked loop; whether there was something. Called by a thread."""
        with self._lock:
            if self._guarded_count != self._read_count:
                self._guarded_count = self._read_count
                return False
            size = 0
            for channel, one in self._channels.items():
                for made, destination in one.sockets():
                    size += self._read(channel, made, destination)
            self._guarded_bytes += size
            return size > 0

    def _waiting_bytes(self, channel: Channel) -> int:
        return self._read_bytes[channel] - self._taken_bytes[channel]

    # -- inside: the loop

    def _watch(self) -> None:
        """Read from the sockets that are open now."""
        turns = self._turns
        assert turns is not None
        self._unwatch()
        for channel, one in self._channels.items():
            for made, destination in one.sockets():
                turns.add_reader(made.fileno(), partial(self._readable, channel, made, destination))
            if one.is_waiting:
                self._await_room(one)

    def _unwatch(self) -> None:
        if self._turns is not None:
            self._turns.remove_sockets()

    def _await_room(self, one: ChannelSockets) -> None:
        made = one.sending
        if made is not None and self._turns is not None:
            self._turns.add_writer(made.fileno(), partial(self._writable, one, made))

    def _writable(self, one: ChannelSockets, made: socket.socket) -> None:
        assert self._turns is not None
        with self._lock:
            self._turns.remove_writer(made.fileno())
            one.send_pending()
            if one.is_waiting:
                self._await_room(one)


class _Guard:
    """A thread that reads while the loop does not."""

    def __init__(self, read: Callable[[], bool], wake: Callable[[], None]) -> None:
        self._read = read
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self._is_stopped = threading.Event()
        self._worker = threading.Thread(target=self._run, name="skerry sockets", daemon=True)
        self._worker.start()

    def stop(self) -> None:
        """End the thread."""
        self._is_stopped.set()
        self._worker.join()

    def _run(self) -> None:
        while not self._is_stopped.wait(_GUARD_S):
            if self._read():
                try:
                    self._loop.call_soon_threadsafe(self._wake)
                except RuntimeError:
                    return  # The loop is closed.


def _open_channels(
    config: SystemNetworkConfig,
    joined: dict[Channel, list[Address]],
    ttls: dict[Address, int],
) -> dict[Channel, ChannelSockets]:
    """Open both channels: at the given ports, or at the first free ones of the expression."""
    is_v6 = config.is_v6
    control = find_local_address(config.control, key="node.peers.control", is_v6=is_v6)
    data = control
    if config.data:
        data = find_local_address(config.data, key="node.peers.data", is_v6=is_v6)
    elif control.port:
        data = replace(control, port=0)
    local = {Channel.CONTROL: control, Channel.DATA: data}
    for index in range(NODE_INDEX_COUNT):
        opened: dict[Channel, ChannelSockets] = {}
        try:
            for channel, where in local.items():
                port = where.port or unicast_port(config.domain, channel, index)
                opened[channel] = ChannelSockets(
                    Address(where.host, port),
                    where.interface,
                    groups=joined[channel],
                    ttls=ttls,
                    buffer_bytes=config.socket_buffer_bytes,
                    now_ns=monotonic_ns(),
                )
        except OSError as error:
            for one in opened.values():
                one.close()
            is_taken = error.errno == errno.EADDRINUSE
            tried = Channel.DATA if opened else Channel.CONTROL
            if is_taken and not local[tried].port and index + 1 < NODE_INDEX_COUNT:
                continue
            raise _failure(local[tried], error) from None
        return opened
    raise AssertionError("the last index fails or returns")


def _failure(where: LocalAddress, error: OSError) -> ConnectFailed:
    port = f":{where.port}" if where.port else ""
    failure = ConnectFailed(
        f"cannot open the sockets at {where.host}{port}: {error.strerror or error}"
    )
    if error.errno == errno.EADDRINUSE:
        failure.hint = "another program uses the port; choose another one, or none"
    elif error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL, errno.ENETUNREACH):
        failure.hint = "the interface is down, or does not support multicast; name another"
    return failure


def _ignore() -> None:
    pass
