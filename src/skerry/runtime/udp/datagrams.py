"""Kernel options of UDP sockets: buffer sizes, filters and segmentation."""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

UDP_SEGMENT: Final = 103
UDP_GRO: Final = 104
UDP_HEADS_V4: Final = 20 + 8
"""Bytes of a packet before the datagram."""
UDP_HEADS_V6: Final = 40 + 8
"""The same with IPv6."""

_SO_ATTACH_FILTER: Final = 26
_SO_DETACH_FILTER: Final = 27
_LOAD_BYTE: Final = 0x30
_LOAD_HALF: Final = 0x28
_LOAD_WORD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_ALL: Final = 0xFFFFFFFF
_IP_HEADER: Final = 0xFFF00000
"""Offsets from here on are those of the IP header; others begin with the UDP header."""
_Instruction = tuple[int, int, int, int]
"""Code, how many instructions to skip if true and if false, and value."""
_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
_SO_MEMINFO: Final = 55
_MEMINFO_DROPS: Final = 8
_KEPT_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """The requested and the actual size of a socket buffer."""

    asked_bytes: int
    bytes: int
    sysctl: str
    """The kernel setting that limits the size."""

    @property
    def is_clipped(self) -> bool:
        """Whether the buffer is smaller than requested."""
        return self.bytes < self.asked_bytes


def set_buffers(made: socket.socket, size: int) -> tuple[Buffer, Buffer]:
    """Set the size of the receive and send buffer, beyond the limit of the system if permitted."""
    receive = _set_buffer(made, socket.SO_RCVBUF, _SO_RCVBUFFORCE, size, "net.core.rmem_max")
    send = _set_buffer(made, socket.SO_SNDBUF, _SO_SNDBUFFORCE, size, "net.core.wmem_max")
    return receive, send


def has_segmentation(made: socket.socket) -> bool:
    """Whether the kernel supports segmentation for sending."""
    try:
        made.getsockopt(socket.IPPROTO_UDP, UDP_SEGMENT)
    except OSError:
        return False
    return True


def start_coalescing(made: socket.socket) -> bool:
    """Receive several datagrams per call from now on; False if the kernel does not support it."""
    try:
        made.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    except OSError:
        return False
    return True


def segment_option(size: int) -> list[tuple[int, int, bytes]]:
    """The ancillary data of `sendmsg` with the size of the datagrams."""
    return [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("=H", size))]


def drop_kinds(made: socket.socket, kinds: Sequence[int], sender: bytes = b"") -> bool:
    """Let the kernel drop datagrams whose third byte is one of `kinds`; False if it cannot.

    With `sender`, only datagrams that have these twelve bytes from the fifth byte on are dropped.
    Without kinds, the filter is removed.
    """
    try:
        if not kinds:
            made.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            return True
        # Offsets include the UDP header of 8 bytes; jumps are relative to the next instruction.
        steps = [(_LOAD_BYTE, 0, 0, 8 + 2)]
        steps += [(_JUMP_IF_EQUAL, len(kinds) - n, 0, kind) for n, kind in enumerate(kinds)]
        steps.append((_RETURN, 0, 0, _ALL))
        words = struct.unpack(f">{len(sender) // 4}I", sender)
        steps += _drop_if([(_LOAD_WORD, 8 + 4 + 4 * n, word) for n, word in enumerate(words)])
        _attach(made, steps)
    except OSError:
        return False
    return True


def drop_source(made: socket.socket, host: str, port: int) -> bool:
    """Let the kernel drop datagrams that one address has sent; False if it cannot."""
    if ":" in host:
        words, offset = struct.unpack(">4I", socket.inet_pton(socket.AF_INET6, host)), 8
    else:
        words, offset = struct.unpack(">I", socket.inet_aton(host)), 12
    parts = [(_LOAD_HALF, 0, port)]
    parts += [(_LOAD_WORD, _IP_HEADER + offset + 4 * n, word) for n, word in enumerate(words)]
    try:
        _attach(made, _drop_if(parts))
    except OSError:
        return False
    return True


def kernel_drop_count(made: socket.socket) -> int | None:
    """Datagrams dropped because the receive buffer was full; None if the kernel does not count."""
    try:
        raw = made.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * (_MEMINFO_DROPS + 1))
    except OSError:
        return None
    if len(raw) < 4 * (_MEMINFO_DROPS + 1):
        return None
    return int(struct.unpack_from("=I", raw, 4 * _MEMINFO_DROPS)[0])


def keep_memory() -> None:
    """Let the C library keep the memory of received datagrams for the next ones.

    The library returns memory at the end of the heap to the kernel as soon as 128 KB of it are
    free, which are two receive calls, and the kernel clears it page by page for the next ones. The
    library keeps twice the size of the largest block that was ever freed, so one is allocated and
    freed here.
    """
    bytes(_KEPT_BYTES)


def _drop_if(parts: Sequence[tuple[int, int, int]]) -> list[_Instruction]:
    """Drop a datagram if each part has a value; given are the load, the offset and the value."""
    steps: list[_Instruction] = []
    for left, (load, offset, value) in zip(range(len(parts), 0, -1), parts, strict=True):
        steps += [(load, 0, 0, offset), (_JUMP_IF_EQUAL, 0, 2 * left - 1, value)]
    return [*steps, (_RETURN, 0, 0, 0), (_RETURN, 0, 0, _ALL)]


def _attach(made: socket.socket, steps: Sequence[_Instruction]) -> None:
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *s) for s in steps))
    pointer = struct.pack("@HP", len(steps), ctypes.addressof(program))
    made.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pointer)


def _set_buffer(made: socket.socket, usual: int, force: int, size: int, sysctl: str) -> Buffer:
    try:
        made.setsockopt(socket.SOL_SOCKET, force, size)
    except OSError:
        made.setsockopt(socket.SOL_SOCKET, usual, size)
    # Linux doubles the requested size, for its own bookkeeping.
    got = made.getsockopt(socket.SOL_SOCKET, usual) // 2
    return Buffer(asked_bytes=size, bytes=got, sysctl=sysctl)
