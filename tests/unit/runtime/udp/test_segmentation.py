"""Several datagrams per system call."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator

import pytest

from skerry.runtime.udp.datagrams import (
    UDP_GRO,
    has_segmentation,
    segment_option,
    start_coalescing,
)
from skerry.runtime.udp.segmentation import (
    SEGMENT_COUNT_MAX,
    SEGMENTED_BYTES_MAX,
    segment_size,
    segments_stop,
)
from tests.segments import split_segments


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two sockets, the first connected to the second."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving,
    ):
        receiving.bind(("127.0.0.1", 0))
        sending.connect(receiving.getsockname())
        yield sending, receiving


def received(made: socket.socket) -> list[bytes]:
    found = []
    while select.select([made], [], [], 0.05)[0]:
        found.append(made.recv(65535))
    return found


def test_segments_have_one_size_and_end_with_a_shorter_one() -> None:
    datagrams = [b"1", b"2", b"3", b"ab", b"ac", b"d", b"e"]
    stops = []
    first = 0
    while first < len(datagrams):
        first = segments_stop([d.ljust(3) if len(d) == 1 else b"   " + d for d in datagrams], first)
        stops.append(first)
    assert stops[-1] == len(datagrams)
    same = [b"x" * 10] * 4
    assert segments_stop(same, 0) == 4
    assert segments_stop([*same, b"x" * 9, b"x" * 9], 0) == 5
    assert segments_stop([*same, b"x" * 11], 0) == 4


def test_segments_of_one_call_are_limited() -> None:
    assert segments_stop([b"x"] * (SEGMENT_COUNT_MAX + 1), 0) == SEGMENT_COUNT_MAX
    size = SEGMENTED_BYTES_MAX // 4
    assert segments_stop([bytes(size)] * 9, 0) == 4
    assert segments_stop([bytes(size)] * 9, 7) == 9


def test_segments_of_one_call_have_one_kind() -> None:
    assert segments_stop([b"\1\0\1abc", b"\1\0\1abc", b"\1\0\3abc"], 0) == 2


def test_received_data_is_split_at_the_segment_size() -> None:
    notified = [(socket.IPPROTO_UDP, UDP_GRO, struct.pack("=i", 4))]
    assert segment_size(notified) == 4
    assert segment_size([]) == segment_size([(socket.SOL_SOCKET, 1, b"")]) == 0
    assert segment_size([(socket.IPPROTO_UDP, UDP_GRO, struct.pack("=i", -1))]) == 0
    assert split_segments(b"aaaabbbbcc", 4) == [b"aaaa", b"bbbb", b"cc"]
    assert split_segments(b"aaaa", 4) == [b"aaaa"]
    assert split_segments(b"", 0) == [b""]


def test_segments_are_sent_and_received_in_one_call(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    sending, receiving = pair
    if not has_segmentation(sending) or not start_coalescing(receiving):
        pytest.skip("this kernel has no trains")
    sending.sendmsg([b"aaaa", b"bbbb", b"cc"], segment_option(4))
    data, ancillary, _, _ = receiving.recvmsg(65535, socket.CMSG_SPACE(4))
    assert split_segments(data, segment_size(ancillary)) == [b"aaaa", b"bbbb", b"cc"]


def test_receiver_without_coalescing_gets_single_datagrams(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    sending, receiving = pair
    if not has_segmentation(sending):
        pytest.skip("this kernel has no trains")
    sending.sendmsg([b"aaaa", b"bbbb", b"cc"], segment_option(4))
    assert received(receiving) == [b"aaaa", b"bbbb", b"cc"]
