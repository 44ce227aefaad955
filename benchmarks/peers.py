"""Side-by-side publish/subscribe benchmark over loopback.

One publisher process and one (or, for fan-out, four) subscriber processes per
case, plus the peer's broker where it has one.  Every peer is driven through
the same small adapter (class Session), with the same payloads, the same
per-message Python callback and the same flow control, and the repetitions are
interleaved (rep 1 of every peer, then rep 2 of every peer, ...), because the
machine is shared: compare ratios inside one run, never two runs.

Cases
  tput56    56-byte messages, 1 publisher -> 1 subscriber, as fast as lossless
  tput1000  the same with 1000-byte messages
  latency   ping-pong at a low rate: round-trip p50 / p99 (microseconds)
  fanout4   56-byte messages, 1 -> 4 subscriber processes, aggregate rate

Flow control ("flow" column)
  native    the peer's own back-pressure blocks the publisher
  window    the harness keeps at most WINDOW messages outstanding, through a
            counter in shared memory that costs both sides a few ns a message;
            used where the peer would else buffer without bound or drop
  none      nothing (raw UDP); the loss column says what that costs

Adding a peer: subclass Session (advertise / subscribe / poll, the rest has
defaults), subclass Peer, decorate it with @peer.  See RawUdp for a short one.
It may stand in a file of its own, given with --plugin FILE, which begins
    from peers import peer, Peer, Session

What to read: wall rates on a shared machine say little; the CPU seconds per
million messages are the steady figure (cpu_pub per message sent, cpu_sub and
cpu_broker per message delivered).  The last line says how busy others kept
the machine.

Needs (whatever is missing is skipped): pyzmq eclipse-zenoh cyclonedds nats-py
redis hiredis paho-mqtt, and the programs nats-server redis-server mosquitto.

Usage
  peers.py                          every peer, every case, 5 interleaved reps
  peers.py --peers zmq-tcp,nats --cases tput56 --reps 3 --seconds 1
  peers.py --list
  peers.py --json out.json          raw repetitions and medians as JSON
Only loopback is used; a case ends by itself (--seconds of load and a drain).
"""

# The adapters are thin glue over libraries of which most have no types.
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import json
import mmap
import os
import resource
import runpy
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

GO, WAIT, STOP = 0, 1, 2
BURST = 64  # messages between two looks at the clock / the window
RING = 8192  # distinct payloads, numbered 0 .. RING-1
LOOP = "127.0.0.1"
CASES = ("tput56", "tput1000", "latency", "fanout4")
HERE = str(Path(__file__).resolve())
now = time.perf_counter_ns

Env = dict[str, Any]
P = TypeVar("P", bound="type[Peer]")

PEERS: dict[str, Peer] = {}


def peer(cls: P) -> P:
    PEERS[cls.name] = cls()
    return cls


# --------------------------------------------------------------------------
# what an adapter implements
# --------------------------------------------------------------------------
class Session:
    """One process's connection to a peer.  Topics are one-letter strings and
    every payload starts with its topic's letter (so that a prefix-filtering
    peer needs no further framing)."""

    def __init__(self, env: Env):
        self.env = env

    # -- required
    def advertise(self, topic: str) -> Callable[[bytes], Any]:
        """Return the fastest natural 'send one message' callable."""
        raise NotImplementedError

    def subscribe(self, topic: str, callback: Callable[[Any], Any]) -> None:
        """Call callback(payload: bytes-like) once for every message."""
        raise NotImplementedError

    def poll(self, timeout: float) -> None:
        """Deliver what is there; return after at most about timeout."""
        raise NotImplementedError

    # -- optional
    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def pump(self, topic: str, ring: list[bytes], gate: Callable[[int], int]) -> int:
        send = self.advertise(topic)
        n = 0
        while True:
            s = gate(n)
            if s == STOP:
                break
            if s == WAIT:
                self.flush()
                time.sleep(0.0002)
                continue
            at = n % RING
            for p in ring[at : at + BURST]:
                send(p)
            n += BURST
        self.flush()
        return n

    def warm(self, topic: str, payload: bytes, ready: Callable[[], bool]) -> None:
        send = self.advertise(topic)
        end = time.monotonic() + 10
        while not ready():
            if time.monotonic() > end:
                raise RuntimeError("no subscriber after 10 s")
            send(payload)
            self.flush()
            time.sleep(0.02)

    def echo(self, topic_in: str, topic_out: str) -> None:
        send = self.advertise(topic_out)
        head = topic_out.encode()

        def back(p):
            send(head + bytes(p)[1:])
            self.flush()

        self.subscribe(topic_in, back)

    def pingpong(self, out: str, back: str, size: int, count: int, gap: float) -> list[int]:
        send = self.advertise(out)
        got: list[Any] = []
        self.subscribe(back, got.append)
        rtt: list[int] = []
        head, tail = out.encode(), bytes(size - 9)
        give_up = time.monotonic() + 10
        k = 0
        while len(rtt) < count:
            p = head + struct.pack("<Q", k) + tail
            del got[:]
            t = now()
            send(p)
            self.flush()
            lost = time.monotonic() + 0.25
            while True:
                if got:
                    dt = now() - t
                    if bytes(got[0])[1:9] == p[1:9]:
                        rtt.append(dt)
                        break
                    del got[:]
                self.poll(0.05)
                if time.monotonic() > lost:
                    break
            k += 1
            time.sleep(gap)
            if time.monotonic() > give_up:
                break
        return rtt


class ThreadedSession(Session):
    """For peers which call back on a thread of their own."""

    def poll(self, timeout):
        time.sleep(timeout)

    def pingpong(self, out, back, size, count, gap):
        send = self.advertise(out)
        ev = threading.Event()
        got: list[Any] = []

        def cb(p):
            got.append(p)
            ev.set()

        self.subscribe(back, cb)
        rtt: list[int] = []
        head, tail = out.encode(), bytes(size - 9)
        give_up = time.monotonic() + 10
        k = 0
        while len(rtt) < count and time.monotonic() < give_up:
            p = head + struct.pack("<Q", k) + tail
            ev.clear()
            del got[:]
            t = now()
            send(p)
            if ev.wait(0.25):
                dt = now() - t
                if bytes(got[0])[1:9] == p[1:9]:
                    rtt.append(dt)
            k += 1
            time.sleep(gap)
        return rtt


class Peer:
    name = "?"
    flow = "window"
    session: type[Session] = Session
    note = ""

    def available(self) -> str:
        """'' when usable, else why not."""
        return ""

    def brokers(self, env: Env) -> list[list[str]]:
        """Commands to start before the clients; they must listen on
        env['ports'][0] when ready."""
        return []

    def run_broker(self, env: Env) -> None:
        """A broker that is Python itself: return [self_broker(...)] from
        brokers() and do its work here."""
        raise NotImplementedError


def self_broker(name: str, env: Env) -> list[str]:
    return [
        sys.executable,
        HERE,
        "--child",
        "broker",
        "--peer",
        name,
        "--env",
        json.dumps(env),
    ]


def load(module: str) -> Any:
    """A library that need not be here; available() has asked for it."""
    return importlib.import_module(module)


def need(module: str = "", binary: str = "") -> str:
    if module:
        try:
            if importlib.util.find_spec(module) is None:
                return f"no module {module}"
        except ModuleNotFoundError:
            return f"no module {module}"
    if binary and not shutil.which(binary):
        return f"no program {binary}"
    return ""


# --------------------------------------------------------------------------
# pyzmq
# --------------------------------------------------------------------------
class ZmqSession(Session):
    HWM = 10000

    def __init__(self, env):
        super().__init__(env)
        zmq = load("zmq")

        self.zmq = zmq
        self.ctx = zmq.Context()
        self.subs = []
        self.sends = {}

    def endpoint(self, topic):
        k = {"d": 0, "p": 1}[topic]
        return f"tcp://{LOOP}:{self.env['ports'][k]}"

    def advertise(self, topic):
        if topic not in self.sends:
            z = self.zmq
            s = self.ctx.socket(z.PUB)
            s.set(z.SNDHWM, self.HWM)
            s.set(z.XPUB_NODROP, 1)  # block, do not drop
            s.set(z.LINGER, 0)
            s.bind(self.endpoint(topic))
            self.sends[topic] = s.send
        return self.sends[topic]

    def sub_socket(self, topic):
        z = self.zmq
        s = self.ctx.socket(z.SUB)
        s.set(z.RCVHWM, self.HWM)
        s.set(z.LINGER, 0)
        s.set(z.SUBSCRIBE, topic.encode())
        return s

    def subscribe(self, topic, callback):
        s = self.sub_socket(topic)
        s.connect(self.endpoint(topic))
        self.subs.append((s, callback))

    def poll(self, timeout):
        s, cb = self.subs[0]
        if s.poll(timeout * 1000):
            recv = s.recv
            nb = self.zmq.NOBLOCK
            try:
                for _ in range(4096):
                    cb(recv(nb))
            except self.zmq.Again:
                pass

    def close(self):
        self.ctx.destroy(0)


class ZmqIpcSession(ZmqSession):
    def endpoint(self, topic):
        return f"ipc://{self.env['dir']}/{topic}.sock"


class ZmqBrokerSession(ZmqSession):
    def advertise(self, topic):
        if topic not in self.sends:
            z = self.zmq
            s = self.ctx.socket(z.PUB)
            s.set(z.SNDHWM, self.HWM)
            s.set(z.XPUB_NODROP, 1)
            s.set(z.LINGER, 0)
            s.connect(f"tcp://{LOOP}:{self.env['ports'][0]}")
            self.sends[topic] = s.send
        return self.sends[topic]

    def subscribe(self, topic, callback):
        s = self.sub_socket(topic)
        s.connect(f"tcp://{LOOP}:{self.env['ports'][1]}")
        self.subs.append((s, callback))


class ZmqBatchSession(ZmqSession):
    """The same batching we would do, by hand over zmq, in plain Python: the
    fair rival, since most of a batching system's gain is the batching."""

    HWM, CAP = 200, 8192

    def advertise(self, topic):
        if not hasattr(self, "raw_" + topic):
            setattr(self, "raw_" + topic, super().advertise(topic))
        raw, head = getattr(self, "raw_" + topic), topic.encode()
        lens = [n.to_bytes(2, "big") for n in range(2048)]
        parts: list[bytes] = []
        room = self.CAP

        def flush():
            nonlocal parts, room
            if parts:
                raw(head + b"".join([x for p in parts for x in (lens[len(p)], p)]))
                parts, room = [], self.CAP

        def send(p):
            nonlocal room
            parts.append(p)
            room -= len(p) + 2
            if room < 1024:
                flush()

        self.flush = flush  # type: ignore[method-assign]
        return send

    def poll(self, timeout):
        s, cb = self.subs[0]
        if s.poll(timeout * 1000):
            try:
                for _ in range(64):
                    b = s.recv(self.zmq.NOBLOCK)
                    i, end = 1, len(b)
                    while i < end:
                        k = i + 2 + ((b[i] << 8) | b[i + 1])
                        cb(b[i + 2 : k])
                        i = k
            except self.zmq.Again:
                pass


@peer
class ZmqTcp(Peer):
    name, flow, session = "zmq-tcp", "native", ZmqSession
    note = "pyzmq PUB/SUB, tcp, XPUB_NODROP, HWM 10000"

    def available(self):
        return need("zmq")


@peer
class ZmqIpc(ZmqTcp):
    name, session = "zmq-ipc", ZmqIpcSession
    note = "pyzmq PUB/SUB, ipc, XPUB_NODROP, HWM 10000"


@peer
class ZmqBatch(ZmqTcp):
    name, session = "zmq-batch", ZmqBatchSession
    note = "pyzmq PUB/SUB, tcp, messages batched to about 8 KB by hand in Python"


@peer
class ZmqBroker(ZmqTcp):
    name, session = "zmq-broker", ZmqBrokerSession
    note = "pyzmq PUB -> XSUB/XPUB zmq.proxy -> SUB, tcp, XPUB_NODROP"

    def brokers(self, env):
        return [self_broker(self.name, env)]

    def run_broker(self, env):
        zmq = load("zmq")

        ctx = zmq.Context()
        front, back = ctx.socket(zmq.XSUB), ctx.socket(zmq.XPUB)
        for s in (front, back):
            s.set(zmq.SNDHWM, 10000)
            s.set(zmq.RCVHWM, 10000)
        back.set(zmq.XPUB_NODROP, 1)
        back.bind(f"tcp://{LOOP}:{env['ports'][1]}")
        front.bind(f"tcp://{LOOP}:{env['ports'][0]}")
        zmq.proxy(front, back)


# --------------------------------------------------------------------------
# zenoh
# --------------------------------------------------------------------------
class ZenohSession(ThreadedSession):
    def __init__(self, env):
        super().__init__(env)
        zenoh = load("zenoh")

        self.zenoh = zenoh
        c = zenoh.Config()
        port = env["ports"][0]
        c.insert_json5("mode", '"peer"')
        c.insert_json5("scouting/multicast/enabled", "false")
        c.insert_json5("scouting/gossip/enabled", "false")
        where = json.dumps([f"tcp/{LOOP}:{port}"])
        if env["role"] == "pub":
            c.insert_json5("listen/endpoints", where)
        else:
            c.insert_json5("listen/endpoints", "[]")
            c.insert_json5("connect/endpoints", where)
        last: Exception = RuntimeError("never tried")
        for _ in range(50):
            try:
                self.s = zenoh.open(c)
                break
            except Exception as e:  # the listener is not up yet
                last = e
                time.sleep(0.1)
        else:
            raise last
        self.keep = []
        self.sends = {}

    def advertise(self, topic):
        if topic not in self.sends:
            z = self.zenoh
            p = self.s.declare_publisher(
                "bench/" + topic,
                congestion_control=z.CongestionControl.BLOCK,
                reliability=z.Reliability.RELIABLE,
            )
            self.keep.append(p)
            self.sends[topic] = p.put
        return self.sends[topic]

    def subscribe(self, topic, callback):
        def on_sample(sample):
            callback(sample.payload.to_bytes())

        self.keep.append(self.s.declare_subscriber("bench/" + topic, on_sample))

    def close(self):
        self.s.close()


@peer
class Zenoh(Peer):
    name, session = "zenoh", ZenohSession
    note = "eclipse-zenoh peer-to-peer, tcp, reliable, congestion BLOCK"

    def available(self):
        return need("zenoh")


# --------------------------------------------------------------------------
# Cyclone DDS
# --------------------------------------------------------------------------
class DdsSession(Session):
    def __init__(self, env):
        super().__init__(env)
        os.environ["CYCLONEDDS_URI"] = (
            "<CycloneDDS><Domain><General><Interfaces><NetworkInterface name='lo'"
            " multicast='true'/></Interfaces><AllowMulticast>true</AllowMulticast>"
            "<MaxMessageSize>65500B</MaxMessageSize></General>"
            "<Internal><SocketReceiveBufferSize min='4MB'/></Internal>"
            "<Tracing><Verbosity>none</Verbosity></Tracing></Domain></CycloneDDS>"
        )
        core, idl = load("cyclonedds.core"), load("cyclonedds.idl")
        of = load("cyclonedds.idl.types")
        duration = load("cyclonedds.util").duration
        size = env["size"]
        ns = {"__annotations__": {"data": of.array[of.uint8, size]}, "__module__": __name__}
        cls = types.new_class(
            "Msg", (idl.IdlStruct,), {"typename": f"Msg{size}"}, lambda d: d.update(ns)
        )
        self.message: Any = dataclass(cls)
        self.duration = duration
        self.qos = core.Qos(
            core.Policy.Reliability.Reliable(duration(seconds=10)),
            core.Policy.History.KeepAll,
            core.Policy.Durability.Volatile,
        )
        self.dp = load("cyclonedds.domain").DomainParticipant(1 + env["ports"][0] % 100)
        self.ws = core.WaitSet(self.dp)
        self.cond = lambda r: core.ReadCondition(
            r, core.ViewState.Any | core.SampleState.NotRead | core.InstanceState.Any
        )
        self.readers = []
        self.sends = {}

    def advertise(self, topic):
        if topic not in self.sends:
            w = load("cyclonedds.pub").DataWriter(self.dp, self.topic(topic), qos=self.qos)
            message, write = self.message, w.write
            self.sends[topic] = lambda p: write(message(p))
        return self.sends[topic]

    def topic(self, name):
        kind = load("cyclonedds.topic").Topic
        return kind(self.dp, "bench_" + name, self.message, qos=self.qos)

    def subscribe(self, topic, callback):
        r = load("cyclonedds.sub").DataReader(self.dp, self.topic(topic), qos=self.qos)
        c = self.cond(r)
        self.ws.attach(c)
        self.readers.append((r, c, callback))

    def poll(self, timeout):
        self.ws.wait(self.duration(milliseconds=max(1, int(timeout * 1000))))
        message = self.message
        for r, _, cb in self.readers:
            for s in r.take(256):
                if type(s) is message:
                    cb(s.data)


@peer
class CycloneDds(Peer):
    name, session = "cyclonedds", DdsSession
    note = "cyclonedds-python, struct of array[uint8, N], Reliable KeepAll"

    def available(self):
        return need("cyclonedds")


# --------------------------------------------------------------------------
# NATS core
# --------------------------------------------------------------------------
class NatsSession(Session):
    def __init__(self, env):
        super().__init__(env)
        nats = load("nats")

        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.nc = self.loop.run_until_complete(nats.connect(f"nats://{LOOP}:{env['ports'][0]}"))

    def subscribe(self, topic, callback):
        async def cb(msg):
            callback(msg.data)

        self.loop.run_until_complete(
            self.nc.subscribe(topic, cb=cb, pending_msgs_limit=1 << 30, pending_bytes_limit=1 << 34)
        )
        self.loop.run_until_complete(self.nc.flush())

    def poll(self, timeout):
        self.loop.run_until_complete(asyncio.sleep(timeout))

    def advertise(self, topic):
        nc, run = self.nc, self.loop.run_until_complete
        return lambda p: run(nc.publish(topic, p))

    def flush(self):
        self.loop.run_until_complete(self.nc.flush())

    def pump(self, topic, ring, gate):
        return self.loop.run_until_complete(self._pump(topic, ring, gate))

    async def _pump(self, topic, ring, gate):
        publish = self.nc.publish
        n = 0
        while True:
            s = gate(n)
            if s == STOP:
                break
            if s == WAIT:
                await asyncio.sleep(0.0002)
                continue
            at = n % RING
            for p in ring[at : at + BURST]:
                await publish(topic, p)
            n += BURST
            await asyncio.sleep(0)
        await self.nc.flush()
        return n

    def echo(self, topic_in, topic_out):
        head = topic_out.encode()

        async def cb(msg):
            await self.nc.publish(topic_out, head + msg.data[1:])

        self.loop.run_until_complete(self.nc.subscribe(topic_in, cb=cb))

    def pingpong(self, out, back, size, count, gap):
        return self.loop.run_until_complete(self._pp(out, back, size, count, gap))

    async def _pp(self, out, back, size, count, gap):
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def cb(msg):
            got.put_nowait(msg.data)

        await self.nc.subscribe(back, cb=cb)
        await self.nc.flush()
        rtt: list[int] = []
        head, tail = out.encode(), bytes(size - 9)
        give_up = time.monotonic() + 10
        k = 0
        while len(rtt) < count and time.monotonic() < give_up:
            p = head + struct.pack("<Q", k) + tail
            t = now()
            await self.nc.publish(out, p)
            try:
                r = await asyncio.wait_for(got.get(), 0.25)
                dt = now() - t
                if r[1:9] == p[1:9]:
                    rtt.append(dt)
            except TimeoutError:
                pass
            k += 1
            await asyncio.sleep(gap)
        return rtt

    def close(self):
        self.loop.run_until_complete(self.nc.close())


@peer
class Nats(Peer):
    name, session = "nats", NatsSession
    note = "nats-server core + nats-py on asyncio"

    def available(self):
        return need("nats", "nats-server")

    def brokers(self, env):
        conf = Path(env["dir"], "nats.conf")
        conf.write_text(f'listen: "{LOOP}:{env["ports"][0]}"\nmax_pending: 1GB\n')
        return [["nats-server", "-c", str(conf)]]


# --------------------------------------------------------------------------
# Redis pub/sub
# --------------------------------------------------------------------------
class RedisSession(Session):
    BATCH = 100

    def __init__(self, env):
        super().__init__(env)
        redis = load("redis")

        self.r = redis.Redis(LOOP, env["ports"][0])
        self.pipe = self.r.pipeline(transaction=False)
        self.ps = self.r.pubsub()
        self.n = 0

    def advertise(self, topic):
        pipe, batch = self.pipe, self.BATCH

        def send(p):
            pipe.publish(topic, p)
            self.n += 1
            if self.n >= batch:
                self.n = 0
                pipe.execute()

        return send

    def flush(self):
        if self.n:
            self.n = 0
            self.pipe.execute()

    def subscribe(self, topic, callback):
        self.ps.subscribe(topic)
        self.cb = callback

    def poll(self, timeout):
        get, cb = self.ps.get_message, self.cb
        m = get(timeout=timeout)
        end = time.monotonic() + timeout
        while m is not None:
            if m["type"] == "message":
                cb(m["data"])
            if time.monotonic() > end:
                break
            m = get(timeout=0)


@peer
class Redis(Peer):
    name, session = "redis", RedisSession
    note = "redis-server + redis-py with hiredis, PUBLISH pipelined by 100"

    def available(self):
        return need("redis", "redis-server")

    def brokers(self, env):
        return [
            [
                "redis-server",
                "--bind",
                LOOP,
                "--port",
                str(env["ports"][0]),
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
                env["dir"],
                "--client-output-buffer-limit",
                "pubsub 0 0 0",
            ]
        ]


# --------------------------------------------------------------------------
# MQTT
# --------------------------------------------------------------------------
class MqttSession(Session):
    def __init__(self, env):
        super().__init__(env)
        mqtt = load("paho.mqtt.client")

        self.c = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self.c.max_queued_messages_set(0)
        self.c.connect(LOOP, env["ports"][0])
        end = time.monotonic() + 5
        while not self.c.is_connected() and time.monotonic() < end:
            self.c.loop(0.05)

    def advertise(self, topic):
        publish = self.c.publish
        return lambda p: publish(topic, p)

    def flush(self):
        while self.c.want_write():
            self.c.loop_write()

    def subscribe(self, topic, callback):
        self.c.on_message = lambda _client, _userdata, m: callback(m.payload)
        self.c.subscribe(topic, 0)
        self.c.loop(0.1)

    def poll(self, timeout):
        loop = self.c.loop
        t = time.monotonic() + timeout
        loop(timeout)
        while time.monotonic() < t:
            for _ in range(16):
                loop(0.002)

    def pingpong(self, out, back, size, count, gap):
        # One packet at a time, return at once.
        self.poll = self.c.loop  # type: ignore[method-assign]
        return super().pingpong(out, back, size, count, gap)

    def close(self):
        self.c.disconnect()


@peer
class Mosquitto(Peer):
    name, session = "mosquitto", MqttSession
    note = "mosquitto QoS 0 + paho-mqtt"

    def available(self):
        return need("paho.mqtt", "mosquitto") if not need("paho") else need("paho")

    def brokers(self, env):
        conf = Path(env["dir"], "mosquitto.conf")
        conf.write_text(
            f"listener {env['ports'][0]} {LOOP}\nallow_anonymous true\n"
            "max_queued_messages 0\nset_tcp_nodelay true\n"
            "persistence false\nlog_type none\n" + ("user root\n" if os.getuid() == 0 else "")
        )
        return [["mosquitto", "-c", str(conf)]]


# --------------------------------------------------------------------------
# floor: one datagram per message, nothing else
# --------------------------------------------------------------------------
class RawUdpSession(Session):
    GROUPS: ClassVar = {"d": "239.255.77.1", "p": "239.255.77.2"}

    def __init__(self, env):
        super().__init__(env)
        self.port = env["ports"][2]
        self.buf = bytearray(65536)

    def advertise(self, topic):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOP))
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
        s.connect((self.GROUPS[topic], self.port))
        return s.send

    def subscribe(self, topic, callback):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        s.bind((self.GROUPS[topic], self.port))
        s.setsockopt(
            socket.IPPROTO_IP,
            socket.IP_ADD_MEMBERSHIP,
            socket.inet_aton(self.GROUPS[topic]) + socket.inet_aton(LOOP),
        )
        self.s, self.cb = s, callback

    def poll(self, timeout):
        s, cb = self.s, self.cb
        recv = s.recv
        s.settimeout(timeout)
        try:
            cb(recv(65536))
            s.setblocking(False)
            for _ in range(4096):
                cb(recv(65536))
        except (BlockingIOError, TimeoutError):
            pass


@peer
class RawUdp(Peer):
    name, flow, session = "raw-udp", "none", RawUdpSession
    note = "reference, not a peer: one multicast datagram per message, unreliable"


@peer
class RawUdpWindow(RawUdp):
    name, flow = "raw-udp-win", "window"
    note = "the same with the harness's window, so that it loses little"


# --------------------------------------------------------------------------
# children
# --------------------------------------------------------------------------
PHASE, SENT = 0, 1  # slots in the shared page
FLAG, COUNT = 8, 24  # + subscriber index


class Shared:
    def __init__(self, path, create=False):
        if create:
            Path(path).write_bytes(bytes(4096))
        with Path(path).open("r+b") as f:
            self.map = mmap.mmap(f.fileno(), 4096)
        self.q = memoryview(self.map).cast("Q")


def cpu() -> float:
    r = resource.getrusage(resource.RUSAGE_SELF)
    return r.ru_utime + r.ru_stime


def wait_until(cond, seconds, what):
    end = time.monotonic() + seconds
    while not cond():
        if time.monotonic() > end:
            raise RuntimeError("timed out: " + what)
        time.sleep(0.005)


def child_pub(p: Peer, env: Env) -> Env:
    sh = Shared(env["shared"])
    q = sh.q
    size, subs = env["size"], env["subs"]
    s = p.session(env)
    if env["case"] == "latency":
        s.advertise("d")
        rtt = s.pingpong("d", "p", size, env["pings"] + 50, env["gap"])[50:]
        q[PHASE] = 3
        return {"rtt": rtt}
    ring = [b"d" + struct.pack("<I", i) + bytes(size - 5) for i in range(RING)]
    s.advertise("d")
    s.warm("d", b"d" + b"\xff" * (size - 1), lambda: all(q[FLAG + i] >= 2 for i in range(subs)))
    time.sleep(0.3)
    q[PHASE] = 1
    # single-threaded adapters may need to be given time; none does today
    wait_until(lambda: all(q[FLAG + i] >= 3 for i in range(subs)), 10, "reset")
    window = env["window"] if p.flow == "window" else 0
    idx = range(COUNT, COUNT + subs)
    t_end = now() + int(env["seconds"] * 1e9)
    limit = env["max_messages"]

    def gate(n):
        if now() >= t_end or n >= limit:
            return STOP
        if window and n - min([q[i] for i in idx]) > window:
            return WAIT
        return GO

    c0, t0 = cpu(), now()
    n = s.pump("d", ring, gate)
    c1, t1 = cpu(), now()
    q[SENT] = n
    q[PHASE] = 2
    wait_until(lambda: all(q[FLAG + i] >= 4 for i in range(subs)), 60, "drain")
    c2 = cpu()  # background sender threads finish their work in the drain
    q[PHASE] = 3
    s.close()
    return {"sent": n, "cpu": c2 - c0, "cpu_pump": c1 - c0, "wall": (t1 - t0) / 1e9}


def child_sub(p: Peer, env: Env) -> Env:
    sh = Shared(env["shared"])
    q = sh.q
    me = env["index"]
    flag, count = FLAG + me, COUNT + me
    s = p.session(env)
    if env["case"] == "latency":
        s.echo("d", "p")
        q[flag] = 1
        while q[PHASE] < 3:
            s.poll(0.05)
        return {}
    n = first = last = at = bad = 0
    u32 = struct.Struct("<I").unpack_from

    def on_message(payload):
        nonlocal n, first, last, at, bad
        n += 1
        if not n & 63:
            q[count] = at = n
            last = now()
            if u32(payload, 1)[0] != (n - 1) % RING:
                bad += 1
        elif n == 1:
            first = now()

    s.subscribe("d", on_message)
    q[flag] = 1
    while not n:
        s.poll(0.02)
    q[flag] = 2
    while q[PHASE] < 1:
        s.poll(0.02)
    n = first = last = at = bad = 0
    q[count] = 0
    c0 = cpu()
    q[flag] = 3
    seen, quiet = 0, time.monotonic()
    while True:
        s.poll(0.02)
        q[count] = n
        if n != seen:
            seen, quiet = n, time.monotonic()
        if q[PHASE] >= 2 and (n >= q[SENT] or time.monotonic() - quiet > 1.5):
            break
    c1 = cpu()
    q[flag] = 4
    while q[PHASE] < 3:
        time.sleep(0.005)
    s.close()
    return {"got": n, "at": at, "first": first, "last": last, "cpu": c1 - c0, "out_of_place": bad}


def child(args) -> None:
    env = json.loads(args.env)
    p = PEERS[args.peer]
    if args.child == "broker":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        p.run_broker(env)
        return
    out = {"pub": child_pub, "sub": child_sub}[args.child](p, env)
    sys.stdout.write("\n" + json.dumps(out) + "\n")
    sys.stdout.flush()
    os._exit(0)  # no peer's shutdown may hang the run


# --------------------------------------------------------------------------
# parent
# --------------------------------------------------------------------------
def free_ports(k):
    ss = [socket.socket() for _ in range(k)]
    for s in ss:
        s.bind((LOOP, 0))
    ports = [s.getsockname()[1] for s in ss]
    for s in ss:
        s.close()
    return ports


def proc_cpu(pid):
    try:
        v = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(v[11]) + int(v[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def machine_ticks():
    v = [int(x) for x in Path("/proc/stat").read_text().partition("\n")[0].split()[1:]]
    return sum(v[:8]), v[7], v[3] + v[4]  # all, steal, idle


def family_cpu():
    return sum(
        r.ru_utime + r.ru_stime
        for r in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def speed():
    """Millions of empty loop turns per CPU second: how fast is a core now?"""
    t = time.thread_time_ns()
    for _ in range(200000):
        pass
    return 200000 / ((time.thread_time_ns() - t) / 1e3)


def run_case(name: str, case: str, opt) -> Env:
    p = PEERS[name]
    subs = 4 if case == "fanout4" else 1
    size = 1000 if case == "tput1000" else 56
    d = tempfile.mkdtemp(prefix="peers-")
    env = {
        "case": case,
        "ports": free_ports(4),
        "dir": d,
        "size": size,
        "subs": subs,
        "shared": str(Path(d, "shared")),
        "seconds": opt.seconds,
        "window": 4096 if size > 500 else 16384,
        "max_messages": 4_000_000,
        "pings": opt.pings,
        "gap": opt.gap,
    }
    sh = Shared(env["shared"], create=True)
    brokers: list[subprocess.Popen[bytes]] = []
    kids: list[subprocess.Popen[str]] = []
    try:
        brokers += [
            subprocess.Popen(cmd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for cmd in p.brokers(env)
        ]
        if brokers:

            def up():
                try:
                    socket.create_connection((LOOP, env["ports"][0]), 0.2).close()
                except OSError:
                    return False
                return True

            wait_until(up, 10, "broker start")
        b0 = sum(proc_cpu(b.pid) for b in brokers)
        fast = speed()
        ticks0, fam0 = machine_ticks(), family_cpu()

        def start(role, index=0):
            e = dict(env, role=role, index=index)
            return subprocess.Popen(
                [
                    sys.executable,
                    HERE,
                    "--child",
                    role,
                    "--peer",
                    name,
                    "--env",
                    json.dumps(e),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

        kids = [start("sub", i) for i in range(subs)]
        if case == "latency" and name != "zenoh":
            wait_until(lambda: sh.q[FLAG] >= 1, 15, "echo start")
            time.sleep(0.3)
        kids.append(start("pub"))
        outs = []
        for k in reversed(kids):
            try:
                so, se = k.communicate(timeout=opt.seconds + 75)
            except subprocess.TimeoutExpired:
                k.kill()
                k.communicate()
                raise RuntimeError("child did not end") from None
            if k.returncode:
                raise RuntimeError((se.strip().splitlines() or ["?"])[-1])
            outs.append(json.loads(so.strip().splitlines()[-1]))
        pub, rest = outs[0], outs[1:]
        ticks1, fam1 = machine_ticks(), family_cpu()
        bcpu = sum(proc_cpu(b.pid) for b in brokers) - b0
        span = max(1, ticks1[0] - ticks0[0])
        busy = span - (ticks1[2] - ticks0[2]) - (ticks1[1] - ticks0[1])
        ours = (fam1 - fam0 + bcpu) * os.sysconf("SC_CLK_TCK")
        out = {
            "speed": fast,
            "steal": (ticks1[1] - ticks0[1]) / span,
            "others": max(0.0, busy - ours) / span,
        }  # share of the machine
        if case == "latency":
            r = sorted(pub["rtt"])
            if len(r) < opt.pings // 2:
                raise RuntimeError(f"only {len(r)} pongs")
            out.update(p50=r[len(r) // 2] / 1e3, p99=r[int(len(r) * 0.99)] / 1e3, pongs=len(r))
            return out
        got = sum(r["got"] for r in rest)
        sent = pub["sent"]
        first, last = min(r["first"] for r in rest), max(r["last"] for r in rest)
        rate = sum(r["at"] - 1 for r in rest) / ((last - first) / 1e9) if last > first else 0.0
        m = 1e6 / max(1, got)
        out.update(
            rate=rate,
            sent=sent,
            got=got,
            loss=1 - got / max(1, sent * subs),
            out_of_place=sum(r["out_of_place"] for r in rest),
            cpu_pub=pub["cpu"] * 1e6 / max(1, sent),
            cpu_sub=sum(r["cpu"] for r in rest) * m,
            cpu_broker=bcpu * m,
            wall=(last - first) / 1e9,
        )
        return out
    finally:
        every: list[subprocess.Popen[Any]] = [*kids, *brokers]
        for k in every:
            if k.poll() is None:
                k.terminate()
                try:
                    k.wait(3)
                except subprocess.TimeoutExpired:
                    k.kill()
                    k.wait()
        shutil.rmtree(d, ignore_errors=True)


def spread(v):
    return statistics.median(v), min(v), max(v)


def table(results: Env, names: list[str], cases: list[str]) -> str:
    lines = []
    for case in cases:
        rows = [
            (n, [r for r in results.get(n, {}).get(case, []) if "error" not in r]) for n in names
        ]
        rows = [(n, v) for n, v in rows if v]
        if not rows:
            continue
        lines.append(f"\n{case}")
        if case == "latency":
            lines.append(
                f"{'peer':<17}{'RTT p50 us':>11}{'(min..max)':>16}"
                f"{'RTT p99 us':>12}{'(min..max)':>18}"
            )
            for n, v in sorted(rows, key=lambda x: statistics.median(r["p50"] for r in x[1])):
                a, b = spread([r["p50"] for r in v]), spread([r["p99"] for r in v])
                lines.append(
                    f"{n:<17}{a[0]:>11.0f}{f'{a[1]:.0f}..{a[2]:.0f}':>16}"
                    f"{b[0]:>12.0f}{f'{b[1]:.0f}..{b[2]:.0f}':>18}"
                )
            continue
        lines.append(
            f"{'peer':<17}{'flow':<8}{'msgs/s':>10}{'(min..max)':>20}{'loss':>9}"
            f"{'cpu s/M: pub':>13}{'sub':>7}{'broker':>8}"
        )
        for n, v in sorted(rows, key=lambda x: -statistics.median(r["rate"] for r in x[1])):
            a = spread([r["rate"] for r in v])
            med = {k: statistics.median(r[k] for r in v) for k in v[0] if k != "error"}
            lo_hi = f"{a[1] / 1e3:.0f}k..{a[2] / 1e3:.0f}k"
            lines.append(
                f"{n:<17}{PEERS[n].flow:<8}{a[0]:>10.0f}{lo_hi:>20}{med['loss'] * 100:>8.2f}%"
                f"{med['cpu_pub']:>13.2f}{med['cpu_sub']:>7.2f}{med['cpu_broker']:>8.2f}"
            )
    return "\n".join(lines)


def main():
    a = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    a.add_argument("--peers", default="")
    a.add_argument("--cases", default=",".join(CASES))
    a.add_argument("--reps", type=int, default=5)
    a.add_argument("--seconds", type=float, default=2.0, help="load per throughput case")
    a.add_argument("--pings", type=int, default=500)
    a.add_argument("--gap", type=float, default=0.002, help="pause between pings, s")
    a.add_argument("--json", default="")
    a.add_argument(
        "--plugin",
        action="append",
        default=[],
        help="a Python file with further @peer classes (import it as 'peers')",
    )
    a.add_argument("--list", action="store_true")
    a.add_argument("--child")
    a.add_argument("--peer")
    a.add_argument("--env")
    opt = a.parse_args()
    plugins = list(opt.plugin) + [
        x for x in os.environ.get("PEERS_PLUGINS", "").split(os.pathsep) if x
    ]
    plugins = list(dict.fromkeys(str(Path(x).resolve()) for x in plugins))
    if plugins:
        os.environ["PEERS_PLUGINS"] = os.pathsep.join(plugins)
        sys.modules.setdefault("peers", sys.modules[__name__])
        for f in plugins:
            runpy.run_path(f)
    if opt.child:
        child(opt)
        return
    names = [x for x in opt.peers.split(",") if x] or list(PEERS)
    cases = opt.cases.split(",")
    if opt.list:
        for n, p in PEERS.items():
            print(f"{n:<17}{p.flow:<8}{p.available() or 'ok':<22}{p.note}")
        return
    skipped = {n: PEERS[n].available() for n in names if PEERS[n].available()}
    for n, why in skipped.items():
        print(f"skipped {n}: {why}", file=sys.stderr)
    names = [n for n in names if n not in skipped]
    results: Env = {n: {c: [] for c in cases} for n in names}
    for rep in range(opt.reps):
        for case in cases:
            for n in names:
                try:
                    r = run_case(n, case, opt)
                except Exception as e:
                    r = {"error": f"{type(e).__name__}: {e}"}
                results[n][case].append(r)
                brief = {k: (round(v, 3) if isinstance(v, float) else v) for k, v in r.items()}
                print(f"rep {rep + 1} {case} {n}: {brief}", file=sys.stderr, flush=True)
    print(table(results, names, cases))
    every = [r for n in names for c in cases for r in results[n][c]]
    errs = [r["error"] for r in every if "error" in r]
    sp = [r["speed"] for r in every if "speed" in r]
    if sp:
        m = spread(sp)
        st = spread([r["steal"] for r in every if "steal" in r])
        ot = spread([r["others"] for r in every if "others" in r])
        print(
            f"\nmachine: {os.cpu_count()} cores; core speed median {m[0]:.1f} M loops/s "
            f"({m[1]:.1f}..{m[2]:.1f}); other jobs took {ot[0] * 100:.0f}% of it "
            f"(median; worst {ot[2] * 100:.0f}%), steal {st[0] * 100:.1f}% "
            f"(worst {st[2] * 100:.1f}%); errors {len(errs)}"
        )
    doc = {
        "reps": opt.reps,
        "seconds": opt.seconds,
        "skipped": skipped,
        "python": sys.version.split()[0],
        "cores": os.cpu_count(),
        "notes": {n: PEERS[n].note for n in names},
        "results": results,
    }
    if opt.json:
        Path(opt.json).write_text(json.dumps(doc, indent=1))
    else:
        print(
            json.dumps(
                {
                    n: {
                        c: {
                            k: statistics.median([r[k] for r in v if k in r])
                            for k in (
                                "rate",
                                "loss",
                                "cpu_pub",
                                "cpu_sub",
                                "cpu_broker",
                                "p50",
                                "p99",
                            )
                            if any(k in r for r in v)
                        }
                        for c, v in results[n].items()
                    }
                    for n in names
                }
            )
        )


if __name__ == "__main__":
    main()
