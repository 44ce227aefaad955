"""Both routers, and the reader of frames, on sockets inside this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import zmq

from skerry.protocol.portal.statistics import RouterCounters
from skerry.runtime.portal.frame_reader import FrameReader
from skerry.runtime.portal.router import CheckingRouter, PortalRouter, ProxyRouter

GOOD, BAD = b"/g/JSON/t/5/ab/\0data", b"/g/JSON/t/five/ab/\0data"
PATIENCE_MS = 60_000


@pytest.mark.parametrize("router_class", [ProxyRouter, CheckingRouter])
def test_a_router_passes_publications_on_and_counts_them(router_class: Any) -> None:
    context = zmq.Context()
    xpub, xsub = context.socket(zmq.XPUB), context.socket(zmq.XSUB)
    publisher, subscriber = context.socket(zmq.XPUB), context.socket(zmq.SUB)
    xpub.bind("inproc://xpub")
    xsub.bind("inproc://xsub")
    router: PortalRouter = router_class(context, xpub, xsub)
    subscriber.subscribe(b"/g/")
    subscriber.connect("inproc://xpub")
    publisher.connect("inproc://xsub")
    assert publisher.poll(PATIENCE_MS)
    assert publisher.recv() == b"\x01/g/"
    publisher.send(BAD)
    publisher.send(GOOD)
    expected = [GOOD] if router_class is CheckingRouter else [BAD, GOOD]
    for frame in expected:
        assert subscriber.poll(PATIENCE_MS)
        assert subscriber.recv() == frame
    counted = RouterCounters(
        received_count=2,
        received_bytes=len(GOOD) + len(BAD),
        sent_count=len(expected),
        sent_bytes=sum(map(len, expected)),
        refused_count=2 - len(expected),
    )
    # A round is counted when it ends, which may be after its last message has arrived.
    for _ in range(PATIENCE_MS):
        if router.counters(PATIENCE_MS) == counted:
            break
        subscriber.poll(1)
    assert router.counters(PATIENCE_MS) == counted
    router.close()
    assert (router.is_running, router.fault) == (False, "")
    publisher.close(linger=0)
    subscriber.close(linger=0)
    context.term()


def test_a_reader_passes_each_frame_until_it_is_closed() -> None:
    async def run() -> list[bytes]:
        context = zmq.Context()
        one, other = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
        one.bind("inproc://pair")
        other.connect("inproc://pair")
        found: list[bytes] = []
        done = asyncio.Event()

        def receive(frame: bytes) -> None:
            found.append(frame)
            if frame == b"1499":
                reader.close()
                done.set()

        reader = FrameReader(one, receive)
        for number in range(600):
            other.send(b"%d" % number)
        await asyncio.sleep(0)
        for number in range(600, 1600):
            other.send(b"%d" % number)
        await done.wait()
        reader.wake()
        reader.close()
        for socket in (one, other):
            socket.close(linger=0)
        context.term()
        return found

    assert asyncio.run(run()) == [b"%d" % number for number in range(1500)]
