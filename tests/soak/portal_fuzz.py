"""Malformed and hostile frames on every socket of a portal, a hundred thousand of them.

Frames of random bytes, mutated captured messages, filters, messages of several parts, and bytes
that are not ZeroMQ go to the sockets of a portal in a process, once with its router in C and once
with the checking one. Meanwhile an honest publisher and an honest subscriber look whether every
publication arrives, in order. The portal must stay up, keep its memory within bounds, answer its
manager's socket, and end orderly.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import zmq
import zmq.asyncio

from skerry.aio import portal
from skerry.errors import SkerryError

MINUTES = 4.0
FRAME_COUNT = 100_000
"""Hostile frames of each router."""
RSS_BYTES_MAX = 300 * 1024 * 1024
"""Several times what a portal takes with all of this going on."""
PATIENCE_S = 60.0
ROUND_COUNT = 200
"""Hostile frames between two honest publications."""
GOLDEN = Path(__file__).parent.parent / "golden" / "goby"


def run(minutes: float) -> dict[str, Any]:
    """Attack both routers, each with the same number of frames; `minutes` bounds the time."""
    seed = time.time_ns() % 1_000_000_000
    violations: list[str] = []
    notes: dict[str, float] = {}
    count = 0
    for options in ((), ("--filter",)):
        name = "checking" if options else "proxy"
        found = attack(seed, options, minutes * 30)
        count += found.pop("frames")
        violations += [f"seed {seed}, {name} router: {text}" for text in found.pop("violations")]
        notes |= {f"{name} {key}": value for key, value in found.items()}
    return {
        "name": "portal_fuzz",
        "seeds": 1,
        "inputs": count,
        "violations": violations,
        "notes": notes,
    }


def attack(seed: int, options: tuple[str, ...], seconds: float) -> dict[str, Any]:
    """What came of the attack on a portal with these options."""
    folder = tempfile.mkdtemp(prefix="skerry-soak-")
    command = [sys.executable, "-P", "-m", "skerry", "portal", "run", "--json"]
    process = subprocess.Popen(
        [*command, "--socket-name", f"{folder}/p", "--log-level", "error", *options],
        stdout=subprocess.PIPE,
        env={**os.environ, "SKERRY_CONFIG": os.devnull},
        text=True,
    )
    try:
        assert process.stdout is not None
        json.loads(process.stdout.readline())
        return asyncio.run(_attack(Random(seed), f"{folder}/p", process, seconds))
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        shutil.rmtree(folder)


async def _attack(
    rng: Random, base: str, process: subprocess.Popen[str], seconds: float
) -> dict[str, Any]:
    violations: list[str] = []
    received: list[int] = []
    attackers = Attackers(rng, base)
    sent, frames, rss_max = 0, 0, 0
    until_s = time.monotonic() + seconds
    subscriber = await portal.open("subscriber", socket_name=base)
    publisher = await portal.open("publisher", socket_name=base)
    try:
        subscriber.subscribe(lambda one: received.append(int(one.text())), "honest")
        for one in (subscriber, publisher):
            one.ready()
            await one.wait_open(PATIENCE_S)
        for one in (subscriber, publisher):
            await one.settle(PATIENCE_S)
        while frames < FRAME_COUNT and time.monotonic() < until_s:
            frames += await attackers.round()
            publisher.publish("honest", str(sent))
            sent += 1
            await _arrived(received, sent)
            rss_max = max(rss_max, _rss_bytes(process.pid))
        late = await portal.open("late", socket_name=base)
        await late.wait_open(PATIENCE_S)
        await late.close()
    except (SkerryError, TimeoutError) as error:
        violations.append(f"after {frames} frames: {type(error).__name__}: {error}")
    finally:
        attackers.close()
        await subscriber.close()
        await publisher.close()
    if received != list(range(sent)):
        violations.append(f"{len(received)} of {sent} honest publications arrived, or not in order")
    if rss_max > RSS_BYTES_MAX:
        violations.append(f"the portal took {rss_max} bytes of memory")
    if process.poll() is not None:
        violations.append(f"the portal ended with {process.returncode}")
    else:
        process.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(process.wait, PATIENCE_S)
        if code:
            violations.append(f"the portal ended with {code}")
    return {
        "frames": frames,
        "violations": violations,
        "honest publications": float(sent),
        "MB of memory": rss_max / 1e6,
    }


async def _arrived(received: list[int], count: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while len(received) < count:  # noqa: ASYNC110 - it stands for all honest programs
            await asyncio.sleep(0.001)


def _rss_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class Attackers:
    """Hostile peers of each socket of a portal."""

    def __init__(self, rng: Random, base: str) -> None:
        self._rng = rng
        self._base = base
        self._context = zmq.asyncio.Context()
        self._messages = [
            bytes.fromhex(vector["hex"])
            for file in ("manager-ipc.json", "manager-tcp.json")
            for vector in json.loads((GOLDEN / file).read_text())["vectors"]
        ]
        self._open()

    async def round(self) -> int:
        """Send some frames to each socket; returns how many."""
        rng = self._rng
        for _ in range(ROUND_COUNT // 4):
            await self._publisher.send(self._frame())
            await self._subscriber.send(self._filter())
            await self._dealer.send_multipart([b"", self._frame()])
            parts = [self._frame() for _ in range(rng.randrange(1, 4))]
            await rng.choice((self._publisher, self._dealer)).send_multipart(parts)
        while await self._dealer.poll(0):
            await self._dealer.recv_multipart()
        if rng.random() < 0.1:
            self._send_raw()
        if rng.random() < 0.02:
            # All filters of a subscriber end with its connection.
            self._close_sockets()
            self._open()
        return ROUND_COUNT

    def close(self) -> None:
        self._close_sockets()
        self._context.destroy(linger=0)

    def _open(self) -> None:
        self._publisher = self._connected(zmq.PUB, "xsub")
        self._subscriber = self._connected(zmq.XSUB, "xpub")
        self._dealer = self._connected(zmq.DEALER, "manager")

    def _connected(self, kind: int, suffix: str) -> Any:
        made = self._context.socket(kind)
        made.connect(f"ipc://{self._base}.{suffix}")
        return made

    def _close_sockets(self) -> None:
        for one in (self._publisher, self._subscriber, self._dealer):
            one.close(linger=0)

    def _frame(self) -> bytes:
        rng = self._rng
        match rng.randrange(4):
            case 0:
                return rng.randbytes(rng.randrange(200))
            case 1:
                # What the honest subscriber receives, but malformed for Goby.
                return b"/other/JSON/%s/x/1/\0" % rng.randbytes(rng.randrange(30)).hex().encode()
            case _:
                made = bytearray(rng.choice(self._messages))
                for _ in range(rng.randrange(1, 5)):
                    made[rng.randrange(len(made))] = rng.randrange(256)
                return bytes(made[: rng.randrange(1, len(made) + 1)])

    def _filter(self) -> bytes:
        rng = self._rng
        start = rng.choice((b"\x00", b"\x01", b"\x02", b""))
        return start + rng.choice((b"/", b"/honest/", b"", rng.randbytes(rng.randrange(60))))

    def _send_raw(self) -> None:
        rng = self._rng
        path = f"{self._base}.{rng.choice(('xsub', 'xpub', 'manager'))}"
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48)
        data = rng.choice((b"", greeting)) + rng.randbytes(rng.randrange(500))
        with socket.socket(socket.AF_UNIX) as one:
            try:
                one.connect(path)
                one.sendall(data)
            except OSError:
                # The portal has closed the connection after the first invalid bytes.
                return


if __name__ == "__main__":
    print(run(MINUTES))
