"""Segmentation: several datagrams per system call. A hot module.

With UDP_SEGMENT one call sends several datagrams of one size; the last may be shorter. With UDP_GRO
one call receives several. Without these options each call handles one datagram; nothing else
differs. A kernel filter only sees the beginning of the data, so all datagrams of one call have the
kind by which filters select.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import Final

from skerry.runtime.udp.datagrams import UDP_GRO

SEGMENTED_BYTES_MAX: Final = 65_000
"""Most of the kernel handles the datagrams of one call as one, so the UDP size limit applies."""
SEGMENT_COUNT_MAX: Final = 64
"""The first kernels with UDP_SEGMENT reject more segments."""


def segments_stop(datagrams: list[bytes], first: int) -> int:
    """The end of the datagrams from `first` on that one call can send."""
    head = datagrams[first]
    size = total = len(head)
    kind = head[:3]
    stop = first + 1
    count_max = min(len(datagrams), first + SEGMENT_COUNT_MAX)
    while stop < count_max:
        datagram = datagrams[stop]
        length = len(datagram)
        total += length
        if length > size or total > SEGMENTED_BYTES_MAX or datagram[:3] != kind:
            break
        stop += 1
        if length < size:
            break
    return stop


def segment_size(ancillary: Sequence[tuple[int, int, bytes]]) -> int:
    """The size of the datagrams that one call received; 0 for a single datagram."""
    for level, kind, value in ancillary:
        if level == socket.IPPROTO_UDP and kind == UDP_GRO:
            (size,) = struct.unpack_from("=i", value)
            return max(int(size), 0)
    return 0
