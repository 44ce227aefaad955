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
    UDP_HEADS_V4,
    UDP_HEADS_V6,
    Buffer,
    drop_kinds,
    has_segmentation,
    keep_memory,
    kernel_drop_count,
    segment_option,
    set_buffers,
    start_coalescing,
)
from skerry.runtime.udp.interfaces import Interface, find_interface
from skerry.runtime.udp.segmentation import segment_size, segments_stop

_RECEIVE_BYTES: Final = 65_535
"""The largest datagram: a Java program may send larger ones than configured."""
_ANCILLARY_BYTES: Final = socket.CMSG_SPACE(4)
_DONT_WAIT: Final = int(socket.MSG_DONTWAIT)
_LOOPBACK_V4: Final = "127.0.0.1"

_Ancillary = list[tuple[int, int, bytes]]

log = logging.getLogger(__name__)


@mypyc_attr(allow_interpreted_subclasses=True)
class MulticastSocket:
    """Sends to a group and receives from it, many datagrams per call if the kernel supports it."""

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
        """ConnectFailed if the group cannot be joined; `trains=False` disables segmentation."""
        self.group = group
        self.interface = find_interface(interface, group=group.host, port=group.port)
        self._is_v6 = ":" in group.host
        family = socket.AF_INET6 if self._is_v6 else socket.AF_INET
        self._made = socket.socket(family, socket.SOCK_DGRAM)
        # Sending has its own socket. It is connected once, and no other program has its port: if
        # two programs sent from one port, the kernel could coalesce datagrams of both, and neither
        # the filter nor the reader could distinguish them.
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
        """Whether one call sends several datagrams (segmentation)."""
        self.receives_trains = trains and start_coalescing(self._made)
        """Whether one call receives several datagrams."""
        # For the kernel's count of dropped datagrams: see `drop_count`.
        self._receives_own = loopback
        self._dropped_kinds: tuple[int, ...] = ()
        self._drops_own = False
        self._own_count = 0
        """Send calls whose datagrams the filter drops when they are looped back."""
        self._drops_seen = 0
        self._drop_count = 0
        keep_memory()
        self._send_one: Callable[[bytes], int] = self._sending.send
        self._send_segments: Callable[[list[bytes], _Ancillary], int] = self._sending.sendmsg
        self._recvmsg: Callable[..., tuple[bytes, _Ancillary, int, Any]] = self._made.recvmsg
        self._recvfrom: Callable[..., tuple[bytes, Any]] = self._made.recvfrom
        # Caches: most datagrams have the source of the previous one, or its size.
        self._source: object = None
        self._address = group
        self._option_size = 0
        self._option: _Ancillary = []

    @property
    def datagram_bytes_max(self) -> int:
        """The largest datagram that IP does not fragment."""
        return self.interface.mtu - (UDP_HEADS_V6 if self._is_v6 else UDP_HEADS_V4)

    @property
    def segment_bytes(self) -> int:
        """The default size of data datagrams for this network."""
        # With segmentation small datagrams cost no more, and a lost frame loses one of them only.
        fitting = self.datagram_bytes_max if self.sends_trains else SEGMENT_BYTES_USUAL
        return min(SEGMENT_BYTES_USUAL, fitting)

    @property
    def drop_count(self) -> int | None:
        """Send calls whose datagrams arrived while the receive buffer was full; None if the kernel
        does not count. Drops by the own filter, which the kernel counts as well, are subtracted.
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
        """The descriptor of the receiving socket."""
        return self._made.fileno()

    def drop_kinds(self, *kinds: int, sender: bytes = b"") -> bool:
        """Let the kernel drop datagrams whose third byte is one of `kinds`; False if it cannot.

        With `sender`, only datagrams that have these twelve bytes from the fifth byte on are
        dropped. Each call replaces the previous filter; without kinds everything is received.
        """
        self._drop_count = self.drop_count or 0
        self._drops_seen = kernel_drop_count(self._made) or 0
        self._own_count = 0
        is_done = drop_kinds(self._made, kinds, sender)
        self._dropped_kinds = kinds if is_done else ()
        self._drops_own = is_done and len(sender) > 0 and self._receives_own
        return is_done

    def send_all(self, datagrams: list[bytes]) -> None:
        """Send datagrams in order; OSError if one could not be sent, after the others are sent.

        Blocks while the send buffer is full.
        """
        failure: OSError | None = None
        first, count = 0, len(datagrams)
        while first < count:
            stop = first + 1
            if stop < count and self.sends_trains:
                stop = segments_stop(datagrams, first)
            try:
                self._send(datagrams if stop - first == count else datagrams[first:stop])
            except OSError as error:
                if stop > first + 1 and error.errno in (errno.EINVAL, errno.EIO, errno.EMSGSIZE):
                    # The route does not support segmentation: its MTU is too small, or the device
                    # computes no checksums.
                    self.sends_trains = False
                    continue
                failure = error
            first = stop
        if failure is not None:
            raise failure

    def receive(self) -> tuple[bytes, int, Address]:
        """Received datagrams, their size and their source; BlockingIOError if there are none.

        The datagrams are concatenated. All have that size, except the last, which may be shorter.
        """
        if self.receives_trains:
            data, ancillary, _, source = self._recvmsg(_RECEIVE_BYTES, _ANCILLARY_BYTES, _DONT_WAIT)
            size = segment_size(ancillary) if ancillary else 0
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

    def _send(self, segments: list[bytes]) -> None:
        if self._drops_own and segments[0][2] in self._dropped_kinds:
            self._own_count += 1
        if len(segments) == 1:
            self._send_one(segments[0])
            return
        size = len(segments[0])
        if size != self._option_size:
            self._option_size, self._option = size, segment_option(size)
        self._send_segments(segments, self._option)

    def _join(self) -> None:
        made, group = self._made, self.group
        # Several programs on a computer may join a group, and each receives all datagrams.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Bound to the group address, so that datagrams to other groups are not received.
        made.bind(self._socket_address())
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
            interface = bytes(4) + self._interface_v4()
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, loopback)
        made.connect(self._socket_address())

    def _socket_address(self) -> tuple[str, int] | tuple[str, int, int, int]:
        host, port = self.group.host, self.group.port
        return (host, port, 0, self.interface.index) if self._is_v6 else (host, port)

    def _interface_v4(self) -> bytes:
        address = self.interface.address
        packed = socket.inet_aton(address) if address else bytes(4)
        return packed + struct.pack("=i", self.interface.index)

    def _warn_if_clipped(self, buffer: Buffer) -> None:
        if buffer.is_clipped:
            log.warning(
                "the receive buffer is smaller than requested",
                extra={
                    "group": str(self.group),
                    "asked_bytes": buffer.asked_bytes,
                    "bytes": buffer.bytes,
                    "hint": f"sysctl -w {buffer.sysctl}={buffer.asked_bytes}",
                },
            )


class SenderNumber:
    """A number that is unique among the senders on this computer: that of a reserved TCP port."""

    def __init__(self, first: int) -> None:
        """Reserve the first free number at or above `first`; LimitExceeded if there is none."""
        for port in range(first, 65_536):
            made = socket.socket()
            try:
                # The socket never listens; binding it reserves the port.
                made.bind((_LOOPBACK_V4, port))
            except OSError:
                made.close()
                continue
            self.value = port
            self._made = made
            return
        raise LimitExceeded(what="the number for a sender", value=65_536, limit=65_535)

    def close(self) -> None:
        """Release the number."""
        self._made.close()


def _failure(group: Address, interface: Interface, error: OSError) -> ConnectFailed:
    where = f" on {interface.name}" if interface.name else ""
    text = f"cannot join {group.host}:{group.port}{where}: {error.strerror or error}"
    failure = ConnectFailed(text)
    if error.errno == errno.EADDRINUSE:
        failure.hint = "another program uses this port exclusively; choose another port"
    elif error.errno in (errno.ENODEV, errno.EADDRNOTAVAIL):
        failure.hint = "this interface does not support multicast of this kind; name another"
    elif error.errno == errno.ENETUNREACH and interface.is_loopback and ":" in group.host:
        failure.hint = (
            "the loopback interface has no IPv6 multicast; on one computer use an IPv4 group"
            " with interface 127.0.0.1, or name an interface that has an IPv6 address"
        )
    elif error.errno == errno.ENETUNREACH:
        kind = "-6 route add multicast ff00::/8" if ":" in group.host else "route add 224.0.0.0/4"
        failure.hint = (
            "the interface has no address of this kind, or there is no route for multicast:"
            f" ip {kind} dev {interface.name or 'NAME'}"
        )
    return failure
