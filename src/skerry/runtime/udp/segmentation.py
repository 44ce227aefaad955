"""Many datagrams in one call of the kernel. A hot module.

With UDP_SEGMENT one call sends a train of datagrams, all of one size but for the last, which may be
shorter. With UDP_GRO one call receives such a train. A kernel that has neither is asked for one
datagram at a time; nothing else differs. A filter of the kernel sees only the beginning of a train,
so all datagrams of a train are of one kind, by which filters tell them.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Final

from skerry.runtime.udp.datagrams import UDP_GRO

__all__ = [
    "TRAIN_BYTES_MAX",
    "TRAIN_COUNT_MAX",
    "cut_train",
    "train_size",
    "train_stop",
]

TRAIN_BYTES_MAX: Final = 65_000
"""A train is one datagram to most of the kernel, so it has to be no longer than one can be."""
TRAIN_COUNT_MAX: Final = 64
"""More segments are refused by the kernels that came first with this."""


def train_stop(datagrams: list[bytes], first: int) -> int:
    """Up to where the datagrams from `first` on make a train."""
    head = datagrams[first]
    size = total = len(head)
    kind = head[:3]
    stop = first + 1
    count_max = min(len(datagrams), first + TRAIN_COUNT_MAX)
    while stop < count_max:
        datagram = datagrams[stop]
        length = len(datagram)
        total += length
        if length > size or total > TRAIN_BYTES_MAX or datagram[:3] != kind:
            break
        stop += 1
        if length < size:
            break
    return stop


def cut_train(data: bytes, size: int) -> list[bytes]:
    """The datagrams in what was received at once, each of this size but for the last."""
    if len(data) <= size:
        return [data]
    return [data[pos : pos + size] for pos in range(0, len(data), size)]


def train_size(ancillary: Sequence[tuple[int, int, bytes]]) -> int:
    """The size of the datagrams in what was received at once; 0 if it is a single one."""
    for level, kind, value in ancillary:
        if level == socket.IPPROTO_UDP and kind == UDP_GRO:
            (size,) = struct.unpack_from("=i", value)
            return max(int(size), 0)
    return 0
