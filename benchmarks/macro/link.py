"""The link between nodes beside pyzmq and cyclonedds: three nodes, each a process, on loopback.

One node sends to all others: messages of 16 types with 100 keys each in turn, none like the other,
of 56, 1000 and 100 000 bytes. There are real nodes of a system on real sockets, with discovery,
picture and heartbeats. The peers are PUB and SUB sockets of pyzmq over TCP, and a writer and
readers of cyclonedds, reliable and keeping all. Each passes each message to a Python function, and
each message is compared with what was sent. What nothing can be cheaper than shows a load of bare
sockets with datagrams as large as ours.

Further loads: all three nodes send; one message at a time, so that nothing can be bundled, which is
the unfavourable case; messages of different sizes in turn; and datagrams of the size that fits
Ethernet, as between computers, where the usual ones of the loopback interface are larger.

What counts is the CPU time of all processes for one message, since rates of a shared machine say
little. A fourth node takes processor time whether it is slow or not, so the rate of the others
beside a slow one is compared with that beside one that is as fast as they are. All loads take
turns.
"""

from __future__ import annotations

import importlib.util
import json
import mmap
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.macro._link_programs import (
    BARE,
    DDS,
    ENDED,
    READY,
    TO_SEND,
    ZMQ,
    Load,
    received_at,
)
from benchmarks.macro.mixed import cpu_s, end, free_ports
from benchmarks.rows import Row
from skerry.protocol.link.config import LinkConfig

HERE = Path(__file__).resolve().parent
REPETITIONS = 5
SECONDS = 1.5
PATIENCE_S = 60.0
SIZES = (56, 1000, 100_000)
CPU_GOALS = {ZMQ: 0.5, DDS: 0.1}
"""The most CPU time of a message of 56 bytes, beside each peer."""
SLOW_GOAL = 0.9
"""The least rate of the other nodes with a slow one, beside their rate without."""
HEARTBEAT_GOAL_MS = 100.0
SETTLE_S = 1.0
"""The time in which a slow node may set the pace of the others, and more."""
ETHERNET_BYTES = LinkConfig().datagram_bytes
USUAL = Load((1,))
PACED = 1000
"""Messages per second of the load of single messages."""
WARM_UP_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Found:
    """The figures of one repetition."""

    cpu_us: float
    rate: float
    parts_us: list[float]
    """CPU time of each program for one message of all senders."""
    programs: list[dict[str, Any]]


def run() -> list[Row]:
    """Rows for CPU time and rate, slow nodes and heartbeats."""
    ours = [Load((size,)) for size in SIZES]
    ethernet = [Load((size,), datagram_bytes=ETHERNET_BYTES) for size in SIZES]
    crowd = Load((56,), sender_count=3)
    single = Load((56,), rate=PACED)
    various = Load((56, 1000, 56, 5000))
    four, slow = Load((56,), node_count=4), Load((56,), node_count=4, is_slow=True)
    peers = [name for name, module in ((ZMQ, "zmq"), (DDS, "cyclonedds")) if has(module)]
    loads = [*ours, *ethernet, crowd, single, various, four, slow]
    loads += [replace(load, peer=peer) for load in (*ours, crowd, single) for peer in peers]
    loads += [replace(load, peer=BARE) for load in ours]
    found: dict[Load, list[Found]] = {load: [] for load in loads}
    for _ in range(REPETITIONS):
        for load, figures in found.items():
            figures.append(measure(load))
            print(
                f"  {load}: {figures[-1].cpu_us:.3f} us CPU, {figures[-1].rate:,.0f} 1/s",
                file=sys.stderr,
            )
    rows: list[Row] = []
    for load, name in (
        *((load, f"{load.sizes[0]} bytes") for load in ours),
        *((load, f"{load.sizes[0]} bytes, datagrams as on Ethernet") for load in ethernet),
        (crowd, "56 bytes, all three send"),
        (single, "56 bytes, one at a time"),
    ):
        for peer in peers:
            theirs = found[replace(load, peer=peer, datagram_bytes=USUAL.datagram_bytes)]
            has_goal = load == ours[0]
            rows.append(
                Row(
                    name=f"link, {name}",
                    ours=cpu(found[load]),
                    theirs=cpu(theirs),
                    peer=peer,
                    unit="us CPU",
                    goal=CPU_GOALS[peer] if has_goal else None,
                    is_less_better=True,
                )
            )
            if not load.rate:
                rows.append(
                    Row(
                        name=f"link, {name}",
                        ours=rate(found[load]),
                        theirs=rate(theirs),
                        peer=peer,
                        unit="1/s",
                    )
                )
    rows += [bare_row(load, found) for load in ours]
    rows.append(Row(name="link, 56 to 5000 bytes in turn", ours=cpu(found[various]), unit="us CPU"))
    rows += [
        datagram_row(name, found[load])
        for name, load in (("", ours[0]), (", as on Ethernet", ethernet[0]))
    ]
    return [
        *rows,
        slow_row(found[four], found[slow]),
        *(heartbeat_row(name, found[load]) for name, load in (("one", ours[0]), ("all", crowd))),
    ]


def has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def cpu(found: list[Found]) -> float:
    return statistics.median(one.cpu_us for one in found)


def rate(found: list[Found]) -> float:
    return statistics.median(one.rate for one in found)


def datagram_row(name: str, found: list[Found]) -> Row:
    programs = [one.programs for one in found]
    per_message = statistics.median(
        made[1]["received_packets"] / made[0]["sent_messages"] for made in programs
    )
    return Row(name=f"link, 56 bytes{name}, datagrams of a message", ours=per_message, unit="")


def bare_row(load: Load, found: dict[Load, list[Found]]) -> Row:
    return Row(
        name=f"link, {load.sizes[0]} bytes",
        ours=cpu(found[load]),
        theirs=cpu(found[replace(load, peer=BARE)]),
        peer=BARE,
        unit="us CPU",
        is_less_better=True,
    )


def slow_row(usual: list[Found], slow: list[Found]) -> Row:
    return Row(
        name="link, others beside a slow node",
        ours=rate(slow),
        theirs=rate(usual),
        peer="beside a fast one",
        unit="1/s",
        goal=SLOW_GOAL,
    )


def heartbeat_row(name: str, found: list[Found]) -> Row:
    delays_ms = sorted(
        delay for one in found for program in one.programs for delay in program["delays_ms"]
    )
    return Row(
        name=f"link, delay of heartbeats beside saturated data, {name} sends, p99",
        ours=delays_ms[len(delays_ms) * 99 // 100],
        unit="ms",
        goal=HEARTBEAT_GOAL_MS,
        is_less_better=True,
    )


# -- one repetition


def measure(load: Load, seconds: float = SECONDS) -> Found:
    """Run all programs of a load once."""
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory())
        page_file = Path(folder, "page")
        page_file.write_bytes(bytes(4096))
        with page_file.open("r+b") as file:
            page = memoryview(mmap.mmap(file.fileno(), 4096)).cast("Q")
        env = {"load": asdict(load), "page": str(page_file), "ports": free_ports(load.node_count)}
        programs: list[subprocess.Popen[str]] = []
        for number in range(load.node_count):
            command = [sys.executable, "-P", str(HERE / "_link_programs.py")]
            process = subprocess.Popen(
                [*command, json.dumps({**env, "number": number})],
                text=True,
                stdout=subprocess.PIPE,
            )
            held.callback(end, process)
            programs.append(process)
        for number in range(load.node_count):
            wait_for(page, {READY + number: 1}, programs)
        count = max(16, WARM_UP_BYTES // sum(load.sizes) * len(load.sizes) // 4)
        if load.rate:
            count = load.rate // 4
        if load.node_count > USUAL.node_count:
            count *= 8  # so that the pauses between the rounds are short beside them
        sent_count = 0

        def send_round() -> float:
            """Send so many messages; return the seconds until all have them."""
            nonlocal sent_count
            started_s = time.monotonic()
            sent_count += count
            page[TO_SEND] = sent_count
            wait_for(page, wanted(load, sent_count), programs)
            return time.monotonic() - started_s

        elapsed_s = send_round()
        if load.node_count > USUAL.node_count:
            settled_s = time.monotonic() + SETTLE_S
            while time.monotonic() < settled_s:
                send_round()
        else:
            count = max(16, round(count * seconds / elapsed_s))
        before_count = sent_count
        before_s = [cpu_s([process]) for process in programs]
        elapsed_s = send_round()
        while elapsed_s < seconds and load.node_count > USUAL.node_count:
            elapsed_s += send_round()
        after_s = [cpu_s([process]) for process in programs]
        page[ENDED] = 1
        found = [json.loads(process.communicate(timeout=PATIENCE_S)[0]) for process in programs]
        measured_count = (sent_count - before_count) * load.sender_count
        parts_us = [
            (after - before) * 1e6 / measured_count
            for before, after in zip(before_s, after_s, strict=True)
        ]
        return Found(sum(parts_us), measured_count / elapsed_s, parts_us, found)


def wanted(load: Load, count: int) -> dict[int, int]:
    """Places in the page, and what is there when all has arrived at all nodes that are not slow."""
    node_count = load.node_count - load.is_slow
    return {
        received_at(node, sender): count
        for node in range(node_count)
        for sender in range(load.sender_count)
        if node != sender
    }


def wait_for(
    page: memoryview, expected: dict[int, int], programs: list[subprocess.Popen[str]]
) -> None:
    stop_s = time.monotonic() + PATIENCE_S
    while any(page[place] != count for place, count in expected.items()):
        if any(process.poll() is not None for process in programs):
            raise RuntimeError("a program has ended; its output is above")
        if time.monotonic() > stop_s:
            found = {place: page[place] for place in expected}
            raise RuntimeError(f"the page has {found}, not {expected}")
        time.sleep(0.002)
