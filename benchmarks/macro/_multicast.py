"""The distributor in the side-by-side benchmark: programs in a multicast group, without a node.

This is a plugin of `benchmarks/peers.py`. Two peers, which differ in how the subscriber is called:
for each update, or with lists of them. Both have the whole protocol on: subjects, sequence numbers,
a history to repair from, heartbeats. A third is not a peer but the lower bound: sockets that send
the harness's own bytes in trains and call back for each, with no protocol at all.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skerry import distributor

if TYPE_CHECKING:
    from benchmarks.peers import LOOP, RING, STOP, WAIT, Env, Peer, Session, peer
else:
    # The harness runs as a program and is known to its plugins by this name.
    from peers import LOOP, RING, STOP, WAIT, Peer, Session, peer

__all__ = ["BareSession", "BatchSession", "UpdateSession"]

Callback = Callable[[Any], Any]

BUFFER_BYTES = 8 * 1024 * 1024
"""Room for all that the harness lets be under way."""
HOLDBACK_MS = 10
WAIT_S = 0.001
"""The window that the harness allows is many times this long."""


GROUP = "239.255.77.10"
SO_RCVBUFFORCE, UDP_SEGMENT, UDP_GRO = 33, 103, 104
TRAIN_BYTES_MAX = 62_000
DATAGRAM_BYTES_MAX = 7800


class UpdateSession(Session):
    """A connection whose subscriber is called for each update, by the polling thread."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.is_polled = env["role"] == "sub" or env["case"] == "latency"
        self.connection = distributor.open(
            f"239.255.77.9:{env['ports'][0]}",
            interface=LOOP,
            application=env["role"],
            socket_buffer_bytes=BUFFER_BYTES,
            holdback_delay_ms=0 if env["case"] == "latency" else HOLDBACK_MS,
            delivery="inline",
            hears_own=False,
            # As with the peers, the thread that waits for messages reads them.
            is_polled=self.is_polled,
        )
        self.publisher = self.connection.publisher()

    def advertise(self, topic: str) -> Callable[[bytes], Any]:
        publish, subject = self.publisher.publish, f"/{topic}"
        return lambda payload: publish(subject, payload)

    def subscribe(self, topic: str, callback: Callback) -> None:
        subscriber = self.connection.subscriber(lambda _s, data, _t, _n: callback(data))
        subscriber.add(f"/{topic}")

    def poll(self, timeout: float) -> None:
        self.connection.poll(timeout)

    def flush(self) -> None:
        self.publisher.flush()

    def pump(self, topic: str, ring: list[bytes], gate: Callable[[int], int]) -> int:
        publish, subject = self.publisher.publish, f"/{topic}"
        count = flushed = 0
        while (state := gate(count)) != STOP:
            if state == WAIT:
                if count != flushed:
                    self.flush()
                    flushed = count
                time.sleep(WAIT_S)
                continue
            at = count % RING
            for payload in ring[at : at + 64]:
                publish(subject, payload)
            count += 64
        self.flush()
        return count

    def close(self) -> None:
        self.connection.close(linger=False)


class BatchSession(UpdateSession):
    """The same with a subscriber that is called with lists of updates."""

    def subscribe(self, topic: str, callback: Callback) -> None:
        def on_batch(updates: list[tuple[str, bytes]]) -> None:
            for _, data in updates:
                callback(data)

        self.connection.subscriber(on_batch=on_batch).add(f"/{topic}")


@peer
class Multicast(Peer):
    name, session = "skerry-multicast", UpdateSession
    note = "skerry distributor, multicast, holdback 10 ms, a callback for each update"


@peer
class MulticastBatch(Peer):
    name, session = "skerry-mc-batch", BatchSession
    note = "skerry distributor, multicast, holdback 10 ms, callbacks with lists of updates"


class BareSession(Session):
    """Trains of datagrams full of payloads, straight from the ring and into the callback."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.places = {"d": (GROUP, env["ports"][0]), "p": (GROUP, env["ports"][1])}
        self.size = env["size"]
        self.sockets: list[socket.socket] = []

    def advertise(self, topic: str) -> Callable[[bytes], Any]:
        return self.outgoing(topic).send

    def outgoing(self, topic: str) -> socket.socket:
        made = self.make()
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOP))
        made.connect(self.places[topic])
        return made

    def make(self) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sockets.append(made)
        return made

    def subscribe(self, topic: str, callback: Callback) -> None:
        made = self.make()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
        made.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        made.bind(self.places[topic])
        member = socket.inet_aton(GROUP) + socket.inet_aton(LOOP)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        self.incoming, self.callback = made, callback

    def poll(self, timeout: float) -> None:
        incoming, callback, size = self.incoming, self.callback, self.size
        incoming.settimeout(timeout)
        try:
            while True:
                data = incoming.recv(65536)
                for at in range(0, len(data), size):
                    callback(data[at : at + size])
                incoming.setblocking(False)
        except (BlockingIOError, TimeoutError):
            pass

    def flush(self) -> None:
        pass

    def pump(self, topic: str, ring: list[bytes], gate: Callable[[int], int]) -> int:
        each = DATAGRAM_BYTES_MAX // self.size
        option = [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", each * self.size))]
        per_train = TRAIN_BYTES_MAX // (each * self.size) * each
        send = self.outgoing(topic).sendmsg
        count = 0
        while (state := gate(count)) != STOP:
            if state == WAIT:
                time.sleep(WAIT_S)
                continue
            at = count % RING
            train = ring[at : at + per_train]
            send(train, option)
            count += len(train)
        return count

    def close(self) -> None:
        for made in self.sockets:
            made.close()


@peer
class Bare(Peer):
    name, session = "bare-trains", BareSession
    note = "reference, not a peer: payloads in trains of datagrams and a callback, no protocol"
