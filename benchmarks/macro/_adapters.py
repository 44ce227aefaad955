"""Skerry in the side-by-side benchmark: a node as a process of its own, and spaces that use it.

This is a plugin of `benchmarks/peers.py`. Four peers: bare subjects with bytes and typed objects,
each through TCP and through a Unix socket. Both sides are asyncio spaces on the loop that
`skerry.aio.run` takes, used as a program would: what is published in one turn of the loop leaves
together, or in pieces of 64 KiB if that is more, and the callback is called with an event for each
object. Beside them the harness's client of NATS runs on that loop, too.
"""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import skerry
from skerry import aio
from skerry.runtime.loops import new_loop

if TYPE_CHECKING:
    from benchmarks.peers import (
        LOOP,
        RING,
        STOP,
        WAIT,
        Env,
        Nats,
        NatsSession,
        Peer,
        Session,
        now,
        peer,
    )
else:
    # The harness runs as a program and is known to its plugins by this name.
    from peers import LOOP, RING, STOP, WAIT, Nats, NatsSession, Peer, Session, now, peer

__all__ = ["TYPES", "NatsOnUvloop", "RawSession", "SpaceSession", "TypedSession"]

T = TypeVar("T")
Callback = Callable[[Any], Any]

TURN = 1024
"""Messages between two turns of the publisher's loop; one look at the window every 64."""

TYPES = skerry.define_types("""
struct BenchTick [cached=false] {
    1: [key] uint32 id;
    2: uint64 seq;
    3: timepoint time;
    4: float64 bid;
    5: float64 ask;
    6: float64 size;
    7: string venue;
}
struct BenchTock [cached=false] {
    1: [key] uint32 id;
    2: uint64 seq;
    3: timepoint time;
    4: float64 bid;
    5: float64 ask;
    6: float64 size;
    7: string venue;
}
""")
BY_TOPIC = {"d": TYPES.BenchTick, "p": TYPES.BenchTock}
"""The harness names two topics: there and, for the round trip, back."""

U64 = struct.Struct("<Q")
WAIT_S = 0.001
"""The window that the harness allows is many times this long."""
LOST_S = 0.25
GIVE_UP_S = 10.0


class SpaceSession(Session):
    """An asyncio space on a loop that runs whenever the harness lets it."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.loop = new_loop()
        self.space = self.run(aio.connect(env["endpoint"], name=env["role"], types=TYPES))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    # -- what differs between bytes and objects

    def prepare(self, topic: str, payload: bytes) -> Callable[[], None]:
        """Return a function that publishes this payload."""
        raise NotImplementedError

    async def publish_all(self, topic: str, ring: list[bytes], gate: Callable[[int], int]) -> int:
        raise NotImplementedError

    def listen(self, topic: str, callback: Callback) -> None:
        """Call back with the bytes for each message."""
        raise NotImplementedError

    # -- what the harness asks for

    def advertise(self, topic: str) -> Callable[[bytes], Any]:
        return lambda payload: self.prepare(topic, payload)()

    def subscribe(self, topic: str, callback: Callback) -> None:
        async def start() -> None:
            self.listen(topic, callback)
            await self.space.flush()

        self.run(start())

    def poll(self, timeout: float) -> None:
        self.run(asyncio.sleep(timeout))

    def flush(self) -> None:
        self.run(self.space.flush())

    def close(self) -> None:
        self.run(self.space.close())

    def pump(self, topic: str, ring: list[bytes], gate: Callable[[int], int]) -> int:
        return self.run(self.publish_all(topic, ring, gate))

    def warm(self, topic: str, payload: bytes, ready: Callable[[], bool]) -> None:
        self.run(self._warm(self.prepare(topic, payload), ready))

    async def _warm(self, publish: Callable[[], None], ready: Callable[[], bool]) -> None:
        async with asyncio.timeout(GIVE_UP_S):
            while not ready():
                publish()
                await asyncio.sleep(0.02)

    def echo(self, topic_in: str, topic_out: str) -> None:
        head = topic_out.encode()
        self.subscribe(topic_in, lambda data: self.prepare(topic_out, head + bytes(data)[1:])())

    def pingpong(self, out: str, back: str, size: int, count: int, gap: float) -> list[int]:
        return self.run(self._rounds(out, back, size, count, gap))

    async def _rounds(self, out: str, back: str, size: int, count: int, gap: float) -> list[int]:
        waiting: asyncio.Future[bytes] = self.loop.create_future()

        def on_answer(answer: bytes) -> None:
            if not waiting.done():
                waiting.set_result(answer)

        self.listen(back, on_answer)
        await self.space.flush()
        head, tail = out.encode(), bytes(size - 9)
        times: list[int] = []
        number, end = 0, time.monotonic() + GIVE_UP_S
        while len(times) < count and time.monotonic() < end:
            payload = head + U64.pack(number) + tail
            publish, waiting = self.prepare(out, payload), self.loop.create_future()
            answer = b""
            with suppress(TimeoutError):
                async with asyncio.timeout(LOST_S):
                    started = now()
                    publish()
                    answer = await waiting
                    passed = now() - started
            if answer[1:9] == payload[1:9]:
                times.append(passed)
            number += 1
            await asyncio.sleep(gap)
        return times


class RawSession(SpaceSession):
    """Bare subjects with bytes."""

    def prepare(self, topic: str, payload: bytes) -> Callable[[], None]:
        return lambda: self.space.publish(f"/{topic}", payload)

    async def publish_all(self, topic: str, ring: list[bytes], gate: Callable[[int], int]) -> int:
        publish, subject = self.space.publish, f"/{topic}"
        count = 0
        while (state := gate(count)) != STOP:
            if state == WAIT:
                await asyncio.sleep(WAIT_S)
                continue
            at = count % RING
            for payload in ring[at : at + 64]:
                publish(subject, payload)
            count += 64
            if not count % TURN:
                await asyncio.sleep(0)
        await self.space.flush()
        return count

    def listen(self, topic: str, callback: Callback) -> None:
        def on_event(event: Any) -> None:
            callback(event.data)

        self.space.subscribe(f"/{topic}", on_event)


class TypedSession(SpaceSession):
    """Uncached objects whose encoded form is as long as the harness's payload: 56 bytes."""

    def prepare(self, topic: str, payload: bytes) -> Callable[[], None]:
        obj = object_for(topic, payload)
        return lambda: self.space.publish(obj)

    async def publish_all(self, topic: str, ring: list[bytes], gate: Callable[[int], int]) -> int:
        publish = self.space.publish
        # Ready before the clock runs, as the payloads are that other peers send; each is encoded
        # whenever it is published.
        objects = [object_for(topic, payload) for payload in ring]
        count = 0
        while (state := gate(count)) != STOP:
            if state == WAIT:
                await asyncio.sleep(WAIT_S)
                continue
            at = count % RING
            for obj in objects[at : at + 64]:
                publish(obj)
            count += 64
            if not count % TURN:
                await asyncio.sleep(0)
        await self.space.flush()
        return count

    def listen(self, topic: str, callback: Callback) -> None:
        head = topic.encode()
        if self.env["case"] == "latency":
            self.space.subscribe(
                BY_TOPIC[topic], lambda event: callback(head + U64.pack(event.object.seq))
            )
            return
        # The harness looks at the number in every 64th payload; these are its payloads.
        payloads, mask = [head + U64.pack(number) for number in range(RING)], RING - 1

        def on_event(event: Any) -> None:
            tick = event.object
            if tick.ask < 0.0:
                raise ValueError("no publisher sent this")
            callback(payloads[tick.seq & mask])

        self.space.subscribe(BY_TOPIC[topic], on_event)


def object_for(topic: str, payload: bytes) -> Any:
    """An object with the number of this payload."""
    return BY_TOPIC[topic](
        id=244660000,
        seq=U64.unpack_from(payload, 1)[0],
        time=1_700_000_000.123456,
        bid=101.25,
        ask=101.5,
        size=2500.0,
        venue="ABC",
    )


class Node(Peer):
    """A node of ours between them."""

    def endpoint(self, env: Env) -> str:
        raise NotImplementedError

    def brokers(self, env: Env) -> list[list[str]]:
        # The children are handed this very dictionary.
        env["endpoint"] = self.endpoint(env)
        # The harness waits for the first port whatever the clients use.
        places = dict.fromkeys([f"tcp://{LOOP}:{env['ports'][0]}", env["endpoint"]])
        listen = [word for place in places for word in ("--listen", place)]
        return [[sys.executable, "-P", "-m", "skerry", "node", "run", *listen]]


class Tcp(Node):
    def endpoint(self, env: Env) -> str:
        return f"tcp://{LOOP}:{env['ports'][0]}"


class Unix(Node):
    def endpoint(self, env: Env) -> str:
        return f"uds:{env['dir']}/node.sock"


@peer
class SkerryTcp(Tcp):
    name, session = "skerry-tcp", RawSession
    note = "a skerry node, bare subjects with bytes, tcp"


@peer
class SkerryUnix(Unix):
    name, session = "skerry-uds", RawSession
    note = "a skerry node, bare subjects with bytes, Unix socket"


@peer
class SkerryTypedTcp(Tcp):
    name, session = "skerry-typed-tcp", TypedSession
    note = "a skerry node, typed objects, tcp"


@peer
class SkerryTypedUnix(Unix):
    name, session = "skerry-typed-uds", TypedSession
    note = "a skerry node, typed objects, Unix socket"


class NatsOnUvloopSession(NatsSession):
    """The harness's client of NATS on the loop that ours is on."""

    def __init__(self, env: Env) -> None:
        asyncio.set_event_loop_policy(_SameLoops())
        super().__init__(env)  # type: ignore[no-untyped-call]


class _SameLoops(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return new_loop()


@peer
class NatsOnUvloop(Nats):
    name, session = "nats-uvloop", NatsOnUvloopSession
    note = "nats-server core + nats-py on uvloop"
