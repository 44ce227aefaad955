"""A socket in a multicast group: joined on one interface, for sending and receiving."""

from __future__ import annotations

import errno
import logging
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import mypyc_attr

from skerry.errors import ConnectFailed, LimitExceeded
from skerry.protocol.distributor.config import SEGMENT_BYTES_USUAL
from skerry.protocol.machine import Address
from skerry.runtime.udp.datagrams import (
    Buffer,
    drop_kinds,
    has_segmentation,
    kernel_drop_count,
    segment_option,
    set_buffers,
    start_coalescing,
)
from skerry.runtime.udp.interfaces import Interface, find_interface
from skerry.runtime.udp.segmentation import train_size, train_stop

__all__ = ["MulticastSocket", "SenderNumber"]

_RECEIVE_BYTES: Final = 65_535
"""Any datagram fits: a Java program may send longer ones than it was told to."""
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(4)
_DONT_WAIT: Final = int(socket.MSG_DONTWAIT)
_HEADS_V4: Final = 20 + 8
_HEADS_V6: Final = 40 + 8
_LOOPBACK_V4: Final = "127.0.0.1"
_KEPT_BYTES: Final = 1024 * 1024

_Ancillary = list[tuple[int, int, bytes]]

log = logging.getLogger(__name__)


@mypyc_attr(allow_interpreted_subclasses=True)
class MulticastSocket:
    """Sends to a group and receives from it, many datagrams in one call where the kernel can."""

    def __init__(
        self,
        group: Address,
        *,
        interface: str = "",
        ttl: int = 1,
        loopback: bool = True,
        buffer_bytes: int = 128_000,
        trains: bool = True,
    ) -> None:
        """ConnectFailed if the group cannot be joined; `trains` False does without them."""
        self.group = group
        self.interface = find_interface(interface, group=group.host, port=group.port)
        self._is_v6 = ":" in group.host
        family = socket.AF_INET6 if self._is_v6 else socket.AF_INET
        self._made = socket.socket(family, socket.SOCK_DGRAM)
        # What is sent has a socket of its own. It knows its way once and for all, and its port is
        # nobody else's: of two programs that send from one port, a train may have datagrams of
        # both, and neither the filter nor who reads could tell.
        self._sending = socket.socket(family, socket.SOCK_DGRAM)
        try:
            self._join()
            self._connect(ttl=ttl, loopback=loopback)
            self.receive_buffer, _ = set_buffers(self._made, buffer_bytes)
            _, self.send_buffer = set_buffers(self._sending, buffer_bytes)
        except OSError as error:
            self.close()
            raise _failure(group, self.interface, error) from None
        except BaseException:
            self.close()
            raise
        self._warn_if_clipped(self.receive_buffer)
        self.sends_trains = trains and has_segmentation(self._sending)
        """Whether one call sends many datagrams."""
        self.receives_trains = trains and start_coalescing(self._made)
        """Whether one call receives many."""
        # For the kernel's count of dropped datagrams: see `drop_count`.
        self._hears_itself = loopback
        self._dropped_kinds: tuple[int, ...] = ()
        self._drops_own = False
        self._own_count = 0
        """Send calls whose datagrams the filter drops when they are looped back."""
        self._drops_seen = 0
        self._drop_count = 0
        _keep_memory()
        self._send_one: Callable[[bytes], int] = self._sending.send
        self._send_train: Callable[[list[bytes], _Ancillary], int] = self._sending.sendmsg
        self._recvmsg: Callable[..., tuple[bytes, _Ancillary, int, Any]] = self._made.recvmsg
        self._recvfrom: Callable[..., tuple[bytes, Any]] = self._made.recvfrom
        # Most come from where the one before came from, and go in datagrams of the same size.
        self._source: object = None
        self._address = group
        self._option_size = 0
        self._option: _Ancillary = []

    @property
    def datagram_bytes_max(self) -> int:
        """The largest datagram that needs no cutting by the network layer."""
        return self.interface.mtu - (_HEADS_V6 if self._is_v6 else _HEADS_V4)

    @property
    def segment_bytes(self) -> int:
        """The default size of data datagrams for this network."""
        # In trains small datagrams cost no more, and a lost frame costs one and not all.
        fitting = self.datagram_bytes_max if self.sends_trains else SEGMENT_BYTES_USUAL
        return min(SEGMENT_BYTES_USUAL, fitting)

    @property
    def drop_count(self) -> int | None:
        """Send calls whose datagrams arrived while the receive buffer was full; None if the kernel
        does not count. Drops of our own filter, which the kernel counts as well, are subtracted.
        """
        found = kernel_drop_count(self._made)
        if found is None:
            return None
        new_count = (found - self._drops_seen) & 0xFFFFFFFF
        if self._dropped_kinds:
            # A filter without a sender drops all data, and then no data is lost.
            new_count = max(0, new_count - self._own_count) if self._drops_own else 0
        return self._drop_count + new_count

    def fileno(self) -> int:
        """The number to wait with."""
        return self._made.fileno()

    def drop_kinds(self, *kinds: int, sender: bytes = b"") -> bool:
        """Do not even receive datagrams whose third byte is one of these, if the kernel can.

        With `sender` only those that have these twelve bytes from the fifth one on. Each call
        replaces the one before; without kinds everything is received.
        """
        self._drop_count = self.drop_count or 0
        self._drops_seen = kernel_drop_count(self._made) or 0
        self._own_count = 0
        is_done = drop_kinds(self._made, kinds, sender)
        self._dropped_kinds = kinds if is_done else ()
        self._drops_own = is_done and len(sender) > 0 and self._hears_itself
        return is_done

    def send_all(self, datagrams: list[bytes]) -> None:
        """Send datagrams in order; OSError for what cannot be sent, the rest is sent all the same.

        It waits while the network takes no more.
        """
        failure: OSError | None = None
        first, count = 0, len(datagrams)
        while first < count:
            stop = first + 1
            if stop < count and self.sends_trains:
                stop = train_stop(datagrams, first)
            try:
                self._send(datagrams if stop - first == count else datagrams[first:stop])
            except OSError as error:
                if stop > first + 1 and error.errno in (errno.EINVAL, errno.EIO, errno.EMSGSIZE):
                    # The way there takes no trains: datagrams above its MTU, or no checksums.
                    self.sends_trains = False
                    continue
                failure = error
            first = stop
        if failure is not None:
            raise failure

    def receive(self) -> tuple[bytes, int, Address]:
        """Datagrams that are there, and who sent them; BlockingIOError if there are none.

        They stand one behind another, and all are of the size that is told, but for the last.
        """
        if self.receives_trains:
            data, ancillary, _, source = self._recvmsg(_RECEIVE_BYTES, _ANCILLARY_BYTES, _DONT_WAIT)
            size = train_size(ancillary) if ancillary else 0
        else:
            data, source = self._recvfrom(_RECEIVE_BYTES, _DONT_WAIT)
            size = 0
        if source != self._source:
            self._source = source
            self._address = Address(source[0], source[1])
        return data, size or len(data), self._address

    def close(self) -> None:
        """Leave the group."""
        self._made.close()
        self._sending.close()

    # -- inside

    def _send(self, train: list[bytes]) -> None:
        if self._drops_own and train[0][2] in self._dropped_kinds:
            self._own_count += 1
        if len(train) == 1:
            self._send_one(train[0])
            return
        size = len(train[0])
        if size != self._option_size:
            self._option_size, self._option = size, segment_option(size)
        self._send_train(train, self._option)

    def _join(self) -> None:
        made, group = self._made, self.group
        # Any number of programs on a computer may be in a group, and each gets all of it.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Bound to the group and not to all addresses, what is sent to others is not heard.
        made.bind(self._place())
        if self._is_v6:
            joined = socket.inet_pton(socket.AF_INET6, group.host)
            joined += struct.pack("=I", self.interface.index)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, joined)
        else:
            joined = socket.inet_aton(group.host) + self._interface_v4()
            made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)

    def _connect(self, *, ttl: int, loopback: bool) -> None:
        made = self._sending
        if self._is_v6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, self.interface.index)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, loopback)
        else:
            place = bytes(4) + self._interface_v4()
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, place)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, loopback)
        made.connect(self._place())

    def _place(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """The group as an address of a socket."""
        host, port = self.group.host, self.group.port
        return (host, port, 0, self.interface.index) if self._is_v6 else (host, port)

    def _interface_v4(self) -> bytes:
        address = self.interface.address
        packed = socket.inet_aton(address) if address else bytes(4)
        return packed + struct.pack("=i", self.interface.index)

    def _warn_if_clipped(self, buffer: Buffer) -> None:
        if buffer.is_clipped:
            log.warning(
                "the receive buffer is smaller than was asked for",
                extra={
                    "group": str(self.group),
                    "asked_bytes": buffer.asked_bytes,
                    "bytes": buffer.bytes,
                    "hint": f"sysctl -w {buffer.sysctl}={buffer.asked_bytes}",
                },
            )


class SenderNumber:
    """A number that no other sender on this computer has: that of a TCP port, kept taken."""

    def __init__(self, first: int) -> None:
        """The first free one at or above `first`; LimitExceeded if there is none."""
        for port in range(first, 65_536):
            made = socket.socket()
            try:
                # It never listens; being bound is enough that nobody else gets it.
                made.bind((_LOOPBACK_V4, port))
            except OSError:
                made.close()
                continue
            self.value = port
            self._made = made
            return
        raise LimitExceeded(what="the number for a sender", value=65_536, limit=65_535)

    def close(self) -> None:
        """Let others have it."""
        self._made.close()


def _keep_memory() -> None:
    """Let the memory of what was received be that of what is received next.

    Memory at the end of the heap goes back to the kernel as soon as 128 KB of it are free, which
    two trains are, and has to be fetched and emptied page by page for the next ones. The C library
    takes the largest piece that it has seen come and go for what a program needs again and again,
    and keeps twice as much; so it is shown one.
    """
    bytes(_KEPT_BYTES)


def _failure(group: Address, interface: Interface, error: OSError) -> ConnectFailed:
    where = f" on {interface.name}" if interface.name else ""
    text = f"cannot join {group.host}:{group.port}{where}: {error.strerror or error}"
    failure = ConnectFailed(text)
    if error.errno == errno.EADDRINUSE:
        failure.hint = "a program has this port without sharing it; choose another one"
    elif error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL):
        failure.hint = "this interface carries no multicast of that kind; name another"
    elif error.errno == errno.ENETUNREACH and interface.is_loopback and ":" in group.host:
        failure.hint = (
            "the loopback interface carries no IPv6 multicast; on one computer use an IPv4 group"
            " with interface 127.0.0.1, or name an interface that has an IPv6 address"
        )
    elif error.errno == errno.ENETUNREACH:
        kind = "-6 route add multicast ff00::/8" if ":" in group.host else "route add 224.0.0.0/4"
        failure.hint = (
            "the interface has no address of this kind, or there is no route for multicast:"
            f" ip {kind} dev {interface.name or 'NAME'}"
        )
    return failure
