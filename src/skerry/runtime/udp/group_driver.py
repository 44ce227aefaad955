"""The driver of a distributor connection: its multicast socket, and the machine behind it.

A hot module. The driver reads datagrams into the machine and sends those that the machine has
ready. Its user calls `advance` of the machine, and processes the events. It holds no lock.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from random import Random
from time import monotonic_ns
from typing import Final

from skerry.protocol.distributor.config import DistributorConfig
from skerry.protocol.distributor.connection import GroupConnection
from skerry.protocol.distributor.events import Direction
from skerry.protocol.distributor.identity import SenderIdentity, address_bytes, draw_identity
from skerry.protocol.distributor.messages import RETRANSMISSION, UPDATE, DatagramHeader
from skerry.protocol.distributor.wire import wire_of
from skerry.protocol.machine import Address
from skerry.protocol.sealing.seal import Seal
from skerry.runtime.clock import wall_ns
from skerry.runtime.udp.multicast import MulticastSocket, SenderNumber

_READ_COUNT_MAX: Final = 16
"""System calls per `read`, so that other work is not delayed."""
_READ_BYTES_MAX: Final = 250_000
"""Bytes per `read`: no more than stays in the processor's cache until it is delivered."""
_MORE_BYTES: Final = 32_000
_ALONE_NS: Final = 200_000
"""After a pause of this length, a read of less than `_MORE_BYTES` is probably all there is. If it
is not, the socket is still readable; to ask for more costs as much as to read."""
_MS: Final = 1_000_000
_DATA: Final = (UPDATE, RETRANSMISSION)


class GroupDriver:
    def __init__(
        self,
        group: Address,
        config: DistributorConfig,
        *,
        rng: Random,
        seal: Seal | None = None,
        trains: bool = True,
        hears_own: bool = True,
    ) -> None:
        """Raises ConfigError for an invalid value, ConnectFailed if the group cannot be joined."""
        self.group = group
        self.socket = MulticastSocket(
            group,
            interface=config.interface,
            ttl=config.ttl,
            loopback=config.loopback,
            buffer_bytes=config.socket_buffer_bytes,
            trains=trains,
        )
        try:
            self._number = None if config.sender_id else SenderNumber(config.sender_id_first)
        except BaseException:
            self.socket.close()
            raise
        try:
            address = self.socket.interface.address
            now_ns = monotonic_ns()
            self.machine = GroupConnection(
                group=group,
                identity=draw_identity(
                    address=address_bytes(address) if address else bytes(4),
                    sender_id=self._number.value if self._number else config.sender_id,
                    process_id=os.getpid(),
                    wall_ms=wall_ns() // _MS,
                    rng=rng,
                ),
                rng=rng,
                now_ns=now_ns,
                config=config,
                seal=seal,
                segment_bytes=self.socket.segment_bytes,
                wall_offset_ns=wall_ns() - now_ns,
                hears_own=hears_own,
            )
        except BaseException:
            self.close()
            raise
        self.wake: Callable[[], None] = lambda: None
        """Called when a socket error is reported, which the user has to process."""
        self.is_closed = False
        self._dialect = config.dialect
        self._hears_own = hears_own
        self._failures: dict[Direction, str] = {}
        self._own: tuple[SenderIdentity | None, bytes] = None, b""
        self._dropped: tuple[bytes, ...] = ()
        self._read_ns = 0

    def read(self, now_ns: int) -> None:
        """Read datagrams into the machine, up to a limit."""
        # Methods are called by attribute and not by local names: compiled, that is a call of C.
        made, machine = self.socket, self.machine
        own = b"" if self._hears_own else self._own_bytes()
        is_alone = now_ns - self._read_ns > _ALONE_NS
        self._read_ns = now_ns
        try:
            left_bytes = _READ_BYTES_MAX
            for _ in range(_READ_COUNT_MAX):
                data, size, source = made.receive()
                left_bytes -= len(data)
                if own and data[4:16] == own and data[2] in _DATA:
                    # All datagrams of one call are of one sender and of one kind.
                    continue
                machine.receive_segments(data, size, source, now_ns)
                if left_bytes <= 0 or (is_alone and len(data) < _MORE_BYTES):
                    break
        except BlockingIOError:
            pass  # No more datagrams wait.
        except OSError as error:
            self._failed(Direction.RECEIVE, error)
            return
        if self._failures:
            self._failures.pop(Direction.RECEIVE, None)

    def send_ready(self) -> None:
        """Send the datagrams that the machine has ready."""
        if not self.machine.has_ready:
            return
        datagrams = self.machine.take_datagrams()
        if self.is_closed:
            return
        try:
            self.socket.send_all(datagrams)
        except OSError as error:
            self._failed(Direction.SEND, error)
        else:
            if self._failures:
                self._failures.pop(Direction.SEND, None)

    def filter_data(self, *, is_wanted: bool) -> None:
        """Let the kernel drop data that has no subscriber: all data, or only our own."""
        if not is_wanted:
            dropped: tuple[bytes, ...] = (b"",)
        else:
            dropped = () if self._hears_own else (self._own_bytes(),)
        if dropped != self._dropped and not self.is_closed:
            self._dropped = dropped
            self.socket.drop_kinds(*(_DATA if dropped else ()), sender=b"".join(dropped))

    def close(self) -> None:
        """Leave the group."""
        self.is_closed = True
        self.socket.close()
        if self._number is not None:
            self._number.close()

    def _failed(self, direction: Direction, error: OSError) -> None:
        """Report each error once, until the socket recovers or fails in another way."""
        reason = error.strerror or str(error)
        if self._failures.get(direction) != reason:
            self._failures[direction] = reason
            self.machine.failed(direction, reason)
            self.wake()

    def _own_bytes(self) -> bytes:
        """The bytes of a header by which our own datagrams are recognized."""
        mine = self.machine.identity
        if self._own[0] is mine:
            return self._own[1]
        header = DatagramHeader(
            kind=UPDATE,
            address=mine.address,
            sender_id=mine.sender_id,
            start=mine.start(self._dialect),
            application_id=mine.application_id,
        )
        self._own = mine, wire_of(self._dialect).header(header)[4:16]
        return self._own[1]


def host_name(bytes_max: int) -> str:
    """The name of this computer, for a message with room for so many bytes; may be empty."""
    return socket.gethostname().encode("ascii", "ignore")[:bytes_max].decode()
