"""The programs of the benchmark of the link: nodes of a system, and the same with two peers.

Each program runs in its own process. Senders and receivers share a page of memory with the
benchmark, in which it says how many messages each sender has to send, and in which each receiver
counts. A program that both sends and receives does so in turns, on one thread.

All use the same messages: `Load.ring` makes them. Each is passed to a Python function, and each is
compared with what the sender sent, byte by byte and in order.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import mmap
import os
import sys
import time
import types
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import methodcaller
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.macro._link_bare import BarePeer
from skerry.engine.system.config import Rejoin, SystemConfig
from skerry.ids import hash64
from skerry.protocol.link.config import LinkConfig
from skerry.protocol.link.events import NotFull, RecordsReceived
from skerry.protocol.machine import Address, MachineEvent
from skerry.protocol.node_types import NodeType, NodeTypes
from skerry.runtime.clock import monotonic_ns
from skerry.runtime.collector import CalmCollector
from skerry.runtime.loops import new_loop
from skerry.runtime.udp.system_addresses import SystemNetworkConfig
from skerry.runtime.udp.system_runtime import SystemRuntime

__all__ = ["BARE", "DDS", "ENDED", "READY", "TO_SEND", "ZMQ", "Load", "received_at"]

ZMQ, DDS, BARE = "pyzmq", "cyclonedds", "bare sockets"
TYPE_COUNT, KEY_COUNT = 16, 100
RING_BYTES_MAX = 4_000_000
HEARTBEAT_MS = 100
LOOP = "127.0.0.1"
USUAL_COUNT = 3
"""Nodes of most loads."""
BURST = 64
"""Messages that a peer sends before it looks for others."""

ENDED, TO_SEND, READY, COUNTS = 0, 1, 8, 16
"""Places in the page: whether it is over, what each sender has to send, which programs are ready,
and what each has received from each sender."""
SLOW_NS = 100_000_000
"""How long a slow node takes no messages, after it has taken those that waited."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, and by which programs."""

    sizes: tuple[int, ...]
    """Bytes of the messages, in turn."""
    peer: str = ""
    """Ours if empty."""
    node_count: int = USUAL_COUNT
    sender_count: int = 1
    rate: int = 0
    """Messages per second of each sender, one at a time; 0 for as many as are accepted."""
    is_slow: bool = False
    """Whether the last node takes messages only once in 100 ms."""
    datagram_bytes: int = LinkConfig().loopback_datagram_bytes

    def ring(self, sender: int) -> list[tuple[int, int, bytes]]:
        """Type, key and content of the messages of a sender, which are sent in turn."""
        count = TYPE_COUNT * KEY_COUNT
        mean = sum(self.sizes) // len(self.sizes)
        count = min(count, max(TYPE_COUNT, RING_BYTES_MAX // mean))
        rng = Random(sender)
        found = []
        for number in range(count):
            index, key = number % TYPE_COUNT, number // TYPE_COUNT
            head = b"%02d%03d" % (index, key)
            size = self.sizes[number % len(self.sizes)]
            found.append((hash64(f"bench.{index}"), key, head + rng.randbytes(size - len(head))))
        return found


def received_at(node: int, sender: int) -> int:
    """Place of the count of messages that a node has received from a sender."""
    return COUNTS + 8 * node + sender


class Receiver:
    """Compares the messages of one sender with what it sent."""

    def __init__(self, load: Load, sender: int, page: memoryview, place: int) -> None:
        self._expected = [data for _, _, data in load.ring(sender)]
        self._page = page
        self._place = place
        self._batch: list[bytes] = []
        self._count = 0
        self.is_checking = True

    def message(self, data: bytes) -> None:
        """The function that is called with each message."""
        self._batch.append(data)

    def settle(self) -> None:
        """Compare and count the messages since the last call."""
        batch, expected = self._batch, self._expected
        if not batch:
            return
        at = self._count % len(expected)
        self._count += len(batch)
        done = 0
        while self.is_checking and done < len(batch):
            share = expected[at : at + len(batch) - done]
            if batch[done : done + len(share)] != share:
                raise ValueError("a message is not the one that was sent")
            done, at = done + len(share), 0
        batch.clear()
        self._page[self._place] = self._count


class Sender:
    """The messages of one sender, and how many are still to be sent."""

    def __init__(self, load: Load, number: int, page: memoryview) -> None:
        self.ring = load.ring(number)
        self._page = page
        self.count = 0

    def left(self) -> int:
        return int(self._page[TO_SEND]) - self.count

    def share(self, most: int) -> list[tuple[int, int, bytes]]:
        """Return the next messages, as many as are in the ring without a turn."""
        at = self.count % len(self.ring)
        return self.ring[at : at + min(most, self.left())]


# -- ours


class OurNode:
    """A node of a system on real sockets."""

    def __init__(self, load: Load, env: dict[str, Any], page: memoryview) -> None:
        self._load = load
        self._page = page
        self._number = number = env["number"]
        self._receivers = {
            1 + sender: Receiver(load, sender, page, received_at(number, sender))
            for sender in range(load.sender_count)
            if sender != number
        }
        self._sender = Sender(load, number, page) if number < load.sender_count else None
        self._is_slow = load.is_slow and number == load.node_count - 1
        for one in self._receivers.values():
            # Values that later ones replace are left out for a slow node.
            one.is_checking = not self._is_slow
        self._is_sending = False
        control, data = env["ports"][:2]
        group = Address("239.255.77.9", control)
        node_type = NodeType(
            multicast_control=f"{group.host}:{control}",
            multicast_data=f"{group.host}:{data}",
            heartbeat_interval_ms=HEARTBEAT_MS,
            lost_heartbeat_count_max=20,
        )
        self._runtime = SystemRuntime(
            SystemConfig(
                system="bench",
                name=f"n{number}",
                node_types=NodeTypes([node_type]),
                type_name=node_type.name,
                control=Address(""),
                data=Address(""),
                seed_groups=(group,),
                link=LinkConfig(loopback_datagram_bytes=load.datagram_bytes),
                rejoin=Rejoin.MANUAL,
                alone_timeout_ns=3_000_000_000,
                node_id=1 + number,
            ),
            SystemNetworkConfig(control=LOOP),
            rng=Random(number),
            on_events=self._on_events,
        )
        self._type_name = node_type.name
        self._heard_ns: dict[int, int] = {}
        self.delays_ms: list[float] = []
        """By how much the control datagrams of each other node were late."""

    async def run(self) -> dict[str, Any]:
        await self._runtime.start()
        machine = self._runtime.machine
        others = self._load.node_count - 1
        while sum(one.is_included for one in machine.data.peers.values()) < others:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        self._page[READY + self._number] = 1
        started_ns = 0
        if self._is_slow:
            machine.data.pause()
        while not self._page[ENDED]:
            await asyncio.sleep(0.005)
            if self._sender is not None and not self._is_sending and self._sender.left() > 0:
                await self._begin()
            started_ns = started_ns or monotonic_ns()
            self._watch_heartbeats()
            if self._is_slow and monotonic_ns() - started_ns >= SLOW_NS:
                started_ns = monotonic_ns()
                await self._take_waiting()
        statistics = machine.data.statistics()
        await self._runtime.close(notice=False)
        return {
            "delays_ms": self.delays_ms,
            "received_packets": sum(one.received_packet_count for one in statistics.peers),
            "sent_messages": statistics.sent_message_count,
            "peers": len(statistics.peers),
        }

    async def _begin(self) -> None:
        if self._load.rate:
            await self._pace()
            return
        self._is_sending = True
        self._send_more()
        self._runtime.wake()

    def _send_more(self) -> None:
        """Send until a message is refused; `NotFull` follows then."""
        sender, name, now_ns = self._sender, self._type_name, monotonic_ns()
        assert sender is not None
        send = self._runtime.machine.send_all
        # With four processes on two cores, any receiver may lag for a while. Then it does not get
        # states that later ones replace, and all messages are counted here.
        is_keyed = self._load.node_count == USUAL_COUNT
        while sender.left() > 0:
            for data_type, key, data in sender.share(BURST):
                if not send(name, data_type, data, now_ns, key=key if is_keyed else None):
                    return
                sender.count += 1
        self._is_sending = False

    async def _pace(self) -> None:
        """Send one message at a time."""
        sender, machine = self._sender, self._runtime.machine
        assert sender is not None
        due_s = time.monotonic()
        while sender.left() > 0:
            ((data_type, key, data),) = sender.share(1)
            if machine.send_all(self._type_name, data_type, data, monotonic_ns(), key=key):
                sender.count += 1
                self._runtime.wake()
            due_s += 1 / self._load.rate
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))

    def _on_events(self, events: Sequence[MachineEvent]) -> None:
        for event in events:
            kind = type(event)
            if kind is RecordsReceived:
                message = self._receivers[event.node].message  # type: ignore[attr-defined]
                for _, _, data in event.records:  # type: ignore[attr-defined]
                    message(data)
            elif kind is NotFull and self._is_sending:
                self._send_more()
        for one in self._receivers.values():
            one.settle()
        self._watch_heartbeats()

    def _watch_heartbeats(self) -> None:
        for node, peer in self._runtime.machine.control.peers.items():
            heard_ns, before_ns = peer.received_ns, self._heard_ns.get(node)
            if heard_ns is None or heard_ns == before_ns:
                continue
            self._heard_ns[node] = heard_ns
            if before_ns is not None and self._page[TO_SEND]:
                self.delays_ms.append(max(0.0, (heard_ns - before_ns) / 1e6 - HEARTBEAT_MS))

    async def _take_waiting(self) -> None:
        machine = self._runtime.machine
        machine.data.resume(monotonic_ns())
        self._runtime.wake()
        await asyncio.sleep(0.001)
        machine.data.pause()


async def run_ours(load: Load, env: dict[str, Any], page: memoryview) -> dict[str, Any]:
    return await OurNode(load, env, page).run()


# -- the peers


def run_peer(load: Load, env: dict[str, Any], page: memoryview, made: Any) -> None:
    """Send and receive in turns, until the benchmark ends."""
    number: int = env["number"]
    sender = Sender(load, number, page) if number < load.sender_count else None
    receivers = {
        other: Receiver(load, other, page, received_at(number, other))
        for other in range(load.sender_count)
        if other != number
    }
    for other, receiver in receivers.items():
        made.receive_from(other, receiver.message)
    made.wait_until_connected()
    page[READY + number] = 1
    due_s = 0.0
    while not page[ENDED]:
        is_sending = sender is not None and sender.left() > 0
        if is_sending and sender is not None:
            share = sender.share(1 if load.rate else made.burst)
            sender.count += made.send([data for _, _, data in share])
            if load.rate:
                due_s = max(due_s, time.monotonic() - 0.1) + 1 / load.rate
                time.sleep(max(0.0, due_s - time.monotonic()))
        if receivers:
            made.poll(0.0 if is_sending else 0.01)
            for receiver in receivers.values():
                receiver.settle()
        elif not is_sending:
            time.sleep(0.001)
    made.close()


class ZmqPeer:
    """PUB and SUB over TCP; each message is one part."""

    burst = BURST

    def __init__(self, load: Load, env: dict[str, Any]) -> None:
        self._zmq = zmq = importlib.import_module("zmq")
        self._context = zmq.Context()
        self._ports = env["ports"]
        self._subscriber_count = load.node_count - 1
        self._high_water = max(10, min(10_000, RING_BYTES_MAX * 4 // max(load.sizes)))
        self._incoming: list[tuple[Any, Callable[[bytes], None]]] = []
        self._out: Any = None
        self._flags = zmq.NOBLOCK if load.sender_count > 1 else 0
        if env["number"] < load.sender_count:
            # A PUB socket that says who has subscribed.
            self._out = out = self._context.socket(zmq.XPUB)
            out.set(zmq.SNDHWM, self._high_water)
            out.set(zmq.XPUB_NODROP, 1)
            out.set(zmq.XPUB_VERBOSE, 1)
            out.bind(f"tcp://{LOOP}:{self._ports[env['number']]}")

    def receive_from(self, other: int, message: Callable[[bytes], None]) -> None:
        into = self._context.socket(self._zmq.SUB)
        into.set(self._zmq.RCVHWM, self._high_water)
        into.set(self._zmq.SUBSCRIBE, b"")
        into.connect(f"tcp://{LOOP}:{self._ports[other]}")
        self._incoming.append((into, message))

    def wait_until_connected(self) -> None:
        for _ in range(self._subscriber_count if self._out is not None else 0):
            self._out.recv()

    def send(self, share: list[bytes]) -> int:
        send, flags, count = self._out.send, self._flags, 0
        with suppress(self._zmq.Again):
            for data in share:
                send(data, flags)
                count += 1
        return count

    def poll(self, timeout_s: float) -> None:
        at_once, again = self._zmq.NOBLOCK, self._zmq.Again
        for into, message in self._incoming:
            if not into.poll(timeout_s * 1000):
                continue
            receive = into.recv
            with suppress(again):
                for _ in range(1024):
                    message(receive(at_once))

    def close(self) -> None:
        self._context.destroy(0)


class DdsPeer:
    """A reliable writer that keeps all, for each sender; multicast on loopback."""

    burst = BURST

    def __init__(self, load: Load, env: dict[str, Any]) -> None:
        os.environ["CYCLONEDDS_URI"] = (
            "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='lo'"
            " multicast='true'/></Interfaces><AllowMulticast>true</AllowMulticast>"
            "<MaxMessageSize>65500B</MaxMessageSize></General>"
            "<Internal><SocketReceiveBufferSize min='4MB'/></Internal></Domain></CycloneDDS>"
        )
        core = importlib.import_module("cyclonedds.core")
        idl = importlib.import_module("cyclonedds.idl")
        arrays = importlib.import_module("cyclonedds.idl.types")
        self._duration = importlib.import_module("cyclonedds.util").duration
        self._core = core
        self._reader_count = load.node_count - 1
        self._number = env["number"]
        self._qos = core.Qos(
            core.Policy.Reliability.Reliable(self._duration(seconds=10)),
            core.Policy.History.KeepAll,
            core.Policy.Durability.Volatile,
        )
        self._kinds: dict[int, Any] = {}
        for size in sorted(set(load.sizes)):
            names = {
                "__annotations__": {"data": arrays.array[arrays.uint8, size]},
                "__module__": __name__,
            }
            base = types.new_class(
                f"Message{size}",
                (idl.IdlStruct,),
                {"typename": f"Message{size}"},
                methodcaller("update", names),
            )
            self._kinds[size] = dataclass(base)
        (self._kind,) = self._kinds.values()
        domain = 1 + env["ports"][0] % 100
        self._participant = importlib.import_module("cyclonedds.domain").DomainParticipant(domain)
        self._waiting = core.WaitSet(self._participant)
        self._incoming: list[tuple[Any, Callable[[bytes], None]]] = []
        self._conditions: list[Any] = []
        self._writer: Any = None
        if self._number < load.sender_count:
            writers = importlib.import_module("cyclonedds.pub")
            self._writer = writers.DataWriter(
                self._participant, self._topic(self._number), qos=self._qos
            )

    def _topic(self, sender: int) -> Any:
        topics = importlib.import_module("cyclonedds.topic")
        return topics.Topic(self._participant, f"bench{sender}", self._kind, qos=self._qos)

    def receive_from(self, other: int, message: Callable[[bytes], None]) -> None:
        core = self._core
        readers = importlib.import_module("cyclonedds.sub")
        reader = readers.DataReader(self._participant, self._topic(other), qos=self._qos)
        states = core.ViewState.Any | core.SampleState.NotRead | core.InstanceState.Any
        condition = core.ReadCondition(reader, states)
        self._waiting.attach(condition)
        self._conditions.append(condition)
        self._incoming.append((reader, message))

    def wait_until_connected(self) -> None:
        while self._writer is not None and self._matched_count() < self._reader_count:
            time.sleep(0.01)

    def _matched_count(self) -> int:
        try:
            return len(self._writer.get_matched_subscriptions())
        except IndexError:
            return 0  # The library fails while a reader is being added.

    def send(self, share: list[bytes]) -> int:
        write, kind = self._writer.write, self._kind
        for data in share:
            write(kind(data))
        return len(share)

    def poll(self, timeout_s: float) -> None:
        if timeout_s:
            self._waiting.wait(self._duration(milliseconds=int(timeout_s * 1000)))
        kind = self._kind
        for reader, message in self._incoming:
            for sample in reader.take(256):
                # Others are states of a writer.
                if type(sample) is kind:
                    message(sample.data)

    def close(self) -> None:
        pass


def main() -> None:
    env = json.loads(sys.argv[1])
    load = Load(**{**env["load"], "sizes": tuple(env["load"]["sizes"])})
    with Path(env["page"]).open("r+b") as file:
        page = memoryview(mmap.mmap(file.fileno(), 4096)).cast("Q")
    CalmCollector().begin()
    if load.peer:
        made = {ZMQ: ZmqPeer, DDS: DdsPeer, BARE: BarePeer}[load.peer](load, env)
        run_peer(load, env, page, made)
        found: dict[str, Any] = {}
    else:
        found = new_loop().run_until_complete(run_ours(load, env, page))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
