"""Mutated sessions and garbage on every door of a real node, for as long as there is time.

The doors are TCP in both framings, a Unix socket, TLS, WebSocket and the pages for metrics.
Meanwhile an honest publisher and an honest subscriber work, and look whether every object arrives,
in order, and soon. The node must stay up, keep its memory within bounds, and end orderly.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import ssl
import struct
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import trustme

from skerry import aio, define_types
from skerry.errors import SkerryError
from tests.captured_sessions import CapturedSession, mutated_bytes, mutated_session, read_sessions
from tests.sim.our_sessions import our_sessions

MINUTES = 10.0
RSS_BYTES_MAX = 400 * 1024 * 1024
"""Several times what a node takes with all of this going on; a leak gets there in ten minutes."""
ATTACKERS_PER_DOOR = 2
HONEST_GAP_S = 0.01
FLUSH_S_MAX = 10.0
"""A flush takes milliseconds; the computer may be busy with other things."""
PATIENCE_S = 30.0
VIOLATIONS_MAX = 20
GOLDEN = Path(__file__).parent.parent / "golden" / "dots"
REPORT = define_types(
    "struct HonestReport { 1: [key] uint32 place; 2: uint64 number; 3: string text; }"
).HonestReport
HTTP = (
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"GET /status.json HTTP/1.0\r\n\r\n",
    b"POST /readyz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
)
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: dots-json\r\n\r\n"
)

Open = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def run(minutes: float) -> dict[str, Any]:
    """Attack until the time is over."""
    seed = time.time_ns() % 1_000_000_000
    report = asyncio.run(_fuzz(seed, minutes * 60))
    return {
        "name": "door_fuzz",
        "seeds": 1,
        "inputs": report.attack_count,
        "violations": [f"seed {seed}: {text}" for text in report.violations[:VIOLATIONS_MAX]],
        "notes": report.notes,
    }


@dataclass
class Report:
    """The result of a run."""

    violations: list[str] = field(default_factory=list)
    notes: dict[str, float] = field(default_factory=dict)
    attack_count: int = 0

    def note_max(self, name: str, value: float) -> None:
        self.notes[name] = max(self.notes.get(name, 0), value)


@dataclass(frozen=True)
class Door:
    """A kind of listener, and what is sent to it."""

    name: str
    open: Open
    make: Callable[[Random], list[bytes]]


async def _fuzz(seed: int, duration_s: float) -> Report:
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        async with _node(Path(folder), report) as (process, doors, places):
            stop_s = time.monotonic() + duration_s
            tasks = [
                asyncio.create_task(
                    _attack(door, Random(f"{seed}/{door.name}/{n}"), stop_s, report)
                )
                for door in doors
                for n in range(ATTACKERS_PER_DOOR)
            ]
            tasks.append(asyncio.create_task(_measure(process, stop_s, report)))
            tasks.append(asyncio.create_task(_be_honest(places[0], places[2], stop_s, report)))
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, BaseException):
                    report.violations.append(f"{type(result).__name__}: {result}")
    return report


# -- the node


@contextlib.asynccontextmanager
async def _node(
    folder: Path, report: Report
) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[Door], list[str]]]:
    """A node with every door there is, which ends when this does."""
    authority = trustme.CA()
    own = authority.issue_cert("localhost", "127.0.0.1")
    own.private_key_and_cert_chain_pem.write_to_path(str(folder / "node.pem"))
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    pages = _free_port()
    listen = [
        "tcp://127.0.0.1:0",
        "tcp-v1://127.0.0.1:0",
        f"uds:{folder}/node.sock",
        "ws://127.0.0.1:0",
        f"tls://127.0.0.1:0?cert={folder}/node.pem",
    ]
    command = [sys.executable, "-m", "skerry", "node", "run", "--log-level", "error"]
    command += ["--storage", f"sqlite:{folder}/objects.db", "--metrics", f"127.0.0.1:{pages}"]
    for place in listen:
        command += ["--listen", place]
    with (folder / "stderr").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(*command, stderr=errors)
    try:
        line = await _first_line(folder / "stderr", process)
        places = line.partition(" listens at ")[2].split(", ")
        yield process, _doors(places, pages, trust), places
        await _end(process, folder / "stderr", report)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _first_line(path: Path, process: asyncio.subprocess.Process) -> str:
    stop_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < stop_s and process.returncode is None:
        for line in path.read_text().splitlines():
            if " listens at " in line:
                return line
        await asyncio.sleep(0.05)
    raise RuntimeError(f"the node did not start: {path.read_text()}")


async def _end(process: asyncio.subprocess.Process, log: Path, report: Report) -> None:
    if process.returncode is not None:
        report.violations.append(f"the node ended by itself with {process.returncode}")
    else:
        process.send_signal(signal.SIGTERM)
        try:
            code = await asyncio.wait_for(process.wait(), PATIENCE_S)
        except TimeoutError:
            report.violations.append("the node did not end within half a minute")
        else:
            if code:
                report.violations.append(f"the node ended with {code}")
    text = log.read_text(errors="replace")
    if "Traceback" in text or "Error" in text:
        report.violations.append(f"the node wrote: {text[-2000:]}")


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def _measure(process: asyncio.subprocess.Process, stop_s: float, report: Report) -> None:
    while time.monotonic() < stop_s and process.returncode is None:
        text = Path(f"/proc/{process.pid}/statm").read_text()
        rss = int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")
        report.note_max("rss_bytes_max", rss)
        if rss > RSS_BYTES_MAX:
            report.violations.append(f"the node takes {rss} bytes of memory")
            return
        await asyncio.sleep(0.5)


# -- the honest


async def _be_honest(first: str, second: str, stop_s: float, report: Report) -> None:
    """Publish through one door, listen at another, and look closely."""
    seen: list[int] = []
    count = 0
    is_working = True

    def note_state(change: object) -> None:
        if is_working:
            report.violations.append(f"an honest space: {change}")

    async with (
        await aio.connect(first, name="honest-publisher") as publisher,
        await aio.connect(second, name="honest-subscriber") as subscriber,
    ):
        for space in (publisher, subscriber):
            space.on_state(note_state)
        subscription = subscriber.subscribe(REPORT, lambda event: seen.append(event.update.number))
        await subscriber.flush()
        while time.monotonic() < stop_s and len(report.violations) < VIOLATIONS_MAX:
            count += 1
            publisher.publish(REPORT(place=count % 50, number=count, text="all is well"))
            await asyncio.sleep(HONEST_GAP_S)
            if count % 20 == 0:
                await _check_flush(publisher, report)
        await publisher.flush(timeout=PATIENCE_S)
        await subscriber.flush(timeout=PATIENCE_S)
        subscription.close()
        report.notes["honest_reports"] = count
        if seen != list(range(1, count + 1)):
            report.violations.append(f"of {count} reports {len(seen)} arrived, or out of order")
        is_working = False


async def _check_flush(publisher: aio.Space, report: Report) -> None:
    started_s = time.monotonic()
    try:
        await publisher.flush(timeout=FLUSH_S_MAX)
    except SkerryError as error:
        report.violations.append(f"a flush of the honest failed: {error}")
    report.note_max("flush_s_max", round(time.monotonic() - started_s, 3))


# -- the others


def _doors(places: list[str], pages: int, trust: ssl.SSLContext) -> list[Door]:
    # One session makes rules about who may connect, which would lock all clients out.
    captured = [s for s in read_sessions(GOLDEN) if s.name != "auth-configure-rules"]
    sessions = [*captured, *our_sessions()]
    by_framing = {
        framing: [session for session in sessions if session.framing == framing]
        for framing in ("v1", "v2", "json")
    }
    tcp, old, unix, web, secure = places
    new_ones, old_ones, texts = by_framing["v2"], by_framing["v1"], by_framing["json"]
    return [
        Door("tcp", _tcp(_port(tcp)), lambda rng: _session(new_ones, rng)),
        Door("tcp-v1", _tcp(_port(old)), lambda rng: _session(old_ones, rng)),
        Door("unix", _unix(unix.partition(":")[2]), lambda rng: _session(new_ones, rng)),
        Door("websocket", _tcp(_port(web)), lambda rng: _web_session(texts, rng)),
        Door("tls", _tcp(_port(secure), trust), lambda rng: _session(new_ones, rng)),
        Door("tls raw", _tcp(_port(secure)), lambda rng: _session(new_ones, rng)),
        Door("pages", _tcp(pages), _http),
    ]


def _port(place: str) -> int:
    return int(place.rpartition(":")[2].partition("?")[0])


def _tcp(port: int, trust: ssl.SSLContext | None = None) -> Open:
    name = "localhost" if trust is not None else None
    return lambda: asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=name)


def _unix(path: str) -> Open:
    return lambda: asyncio.open_unix_connection(path)


async def _attack(door: Door, rng: Random, stop_s: float, report: Report) -> None:
    lingering: list[asyncio.StreamWriter] = []
    while time.monotonic() < stop_s and len(report.violations) < VIOLATIONS_MAX:
        report.attack_count += 1
        try:
            reader, writer = await asyncio.wait_for(door.open(), PATIENCE_S)
        except TimeoutError:
            report.violations.append(f"the listener {door.name} accepts no connection")
            return
        except OSError:
            # It may be full of us; others are served all the same, which is what counts.
            await asyncio.sleep(0.05)
            continue
        await _say(reader, writer, door.make(rng), rng)
        if rng.random() < 0.1:
            # Neither says anything more nor goes.
            lingering.append(writer)
        else:
            await _close(writer, rng)
        if len(lingering) > 20:
            await _close(lingering.pop(0), rng)
    for writer in lingering:
        await _close(writer, rng)


async def _say(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: list[bytes], rng: Random
) -> None:
    reads = rng.random() < 0.8
    try:
        for piece in pieces:
            writer.write(piece)
            await asyncio.wait_for(writer.drain(), 1.0)
            if reads:
                await asyncio.wait_for(reader.read(65536), 0.05)
    except (TimeoutError, OSError):
        # Told nothing, or cut: both are what a node may do with such a client.
        return


async def _close(writer: asyncio.StreamWriter, rng: Random) -> None:
    if rng.random() < 0.3:
        writer.transport.abort()
    else:
        writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        await asyncio.wait_for(writer.wait_closed(), 1.0)


def _session(sessions: list[CapturedSession], rng: Random) -> list[bytes]:
    if rng.random() < 0.1:
        return [rng.randbytes(rng.choice((1, 10, 1000, 100_000)))]
    pieces = mutated_session(rng.choice(sessions), sessions, rng)
    return pieces if rng.random() < 0.5 else [b"".join(pieces)]


def _http(rng: Random) -> list[bytes]:
    request = rng.choice(HTTP)
    if rng.random() < 0.2:
        return [rng.randbytes(rng.choice((1, 100, 100_000)))]
    if rng.random() < 0.6:
        request = mutated_bytes(request, rng)
    return [request] * rng.choice((1, 1, 3))


def _web_session(sessions: list[CapturedSession], rng: Random) -> list[bytes]:
    upgrade = UPGRADE % base64.b64encode(rng.randbytes(16))
    if rng.random() < 0.2:
        upgrade = mutated_bytes(upgrade, rng)
    texts = mutated_session(rng.choice(sessions), sessions, rng)
    frames = [_web_frame(text, rng) for text in texts]
    if rng.random() < 0.3:
        frames = [mutated_bytes(frame, rng) for frame in frames]
    return [upgrade, *frames]


def _web_frame(data: bytes, rng: Random) -> bytes:
    first = 0x81 if rng.random() < 0.9 else rng.randrange(256)
    mask = rng.randbytes(4)
    size = bytes((0x80 | len(data),)) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data))
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(data[:65535]))
    return bytes((first,)) + size + mask + masked


if __name__ == "__main__":
    print(run(float(sys.argv[1]) if len(sys.argv) > 1 else 0.3))
