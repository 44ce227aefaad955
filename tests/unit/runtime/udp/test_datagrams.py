"""Kernel buffers and filters."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator

import pytest

from skerry.runtime.udp.datagrams import (
    Buffer,
    drop_kinds,
    drop_source,
    has_segmentation,
    kernel_drop_count,
    set_buffers,
    start_coalescing,
)


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


def test_sockets_without_udp_have_no_segmentation() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        assert not has_segmentation(other)
        assert not start_coalescing(other)
        assert kernel_drop_count(other) in (None, 0)


def test_kinds_are_dropped_by_the_kernel(pair: tuple[socket.socket, socket.socket]) -> None:
    sending, receiving = pair
    assert drop_kinds(receiving, [1, 2])
    for kind in range(4):
        sending.send(bytes((9, 9, kind)))
    assert received(receiving) == [b"\t\t\0", b"\t\t\3"]
    assert drop_kinds(receiving, [])
    sending.send(b"\t\t\1")
    assert received(receiving) == [b"\t\t\1"]


def test_kinds_of_one_sender_are_dropped(pair: tuple[socket.socket, socket.socket]) -> None:
    sending, receiving = pair
    ours = b"123456789abc"
    assert drop_kinds(receiving, [1, 2], ours)
    others = [
        b"\1\0\3\0" + ours,
        b"\1\0\1\0" + b"x23456789abc",
        b"\1\0\1\0" + b"1234x6789abc",
        b"\1\0\1\0" + b"12345678xabc",
        b"\1\0\2\0" + b"123456789abx",
    ]
    for datagram in (b"\1\0\1\0" + ours, *others, b"\1\0\2\0" + ours + b"more"):
        sending.send(datagram)
    assert received(receiving) == others


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_datagrams_of_one_source_are_dropped(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.socket(family, socket.SOCK_DGRAM) as one,
        socket.socket(family, socket.SOCK_DGRAM) as other,
        socket.socket(family, socket.SOCK_DGRAM) as receiving,
    ):
        for made in (one, other, receiving):
            made.bind((host, 0))
        assert drop_source(receiving, host, one.getsockname()[1])
        before = kernel_drop_count(receiving)
        for made in (one, other, one):
            made.sendto(b"%d" % made.getsockname()[1], receiving.getsockname())
        assert received(receiving) == [b"%d" % other.getsockname()[1]]
        # The same port on another computer is another source.
        assert drop_source(receiving, "10.1.2.3" if family == socket.AF_INET else "fd00::1", 1)
        one.sendto(b"again", receiving.getsockname())
        assert received(receiving) == [b"again"]
        if before is not None:
            assert kernel_drop_count(receiving) == before + 2


def test_a_filter_by_source_needs_a_socket_that_takes_it() -> None:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.close()
    assert not drop_source(made, "127.0.0.1", 1)


def test_filter_that_was_never_set_cannot_be_removed() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        assert not drop_kinds(made, [])


def test_buffers_have_the_requested_size_or_are_clipped() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        receive, send = set_buffers(made, 100_000)
        assert receive.bytes >= 100_000
        assert not receive.is_clipped
        assert not send.is_clipped
        assert receive.sysctl == "net.core.rmem_max"
        assert send.sysctl == "net.core.wmem_max"
    assert Buffer(asked_bytes=10, bytes=9, sysctl="x").is_clipped


def test_datagrams_that_do_not_fit_the_buffer_are_counted(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    sending, receiving = pair
    set_buffers(receiving, 4096)
    for _ in range(100):
        sending.send(bytes(1000))
    kept = len(received(receiving))
    assert 0 < kept < 100
    assert kernel_drop_count(receiving) == 100 - kept
