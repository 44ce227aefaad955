"""Publisher, node, subscribers: each a process, beside a ZeroMQ broker of the same shape and NATS.

`benchmarks/peers.py` runs them in turns, with the same load and a Python callback for each message.
What counts is the CPU time of all processes together for one message: rates of a shared machine
say little. Missing peers are left out and named; the rows then stand without them.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.macro._nats import path_with_nats
from benchmarks.rows import Row

HERE = Path(__file__).resolve().parent
BROKER, NATS, NATS_UVLOOP = "zmq-broker", "nats", "nats-uvloop"
WAYS = {
    "skerry-typed-tcp": ("typed, TCP", 0.6),
    "skerry-typed-uds": ("typed, Unix", 0.6),
    "skerry-tcp": ("bytes, TCP", 0.4),
    "skerry-uds": ("bytes, Unix", 0.4),
}
"""Our peers: how a row calls them, and how much of the broker's CPU time they may take."""
LOADS = {"tput56": "1 subscriber", "fanout4": "4 subscribers"}
ROUND_TRIP = 0.6
"""Of NATS' median."""
DAEMON_RATE = 305_000
"""Small objects a second that the C++ daemon of DOTS forwards on two quiet cores."""
REPETITIONS = 7
ROUND_TRIP_REPETITIONS = 15
"""A round trip is short and mostly waiting, and so varies most of all."""
SECONDS = 1.0

Result = dict[str, Any]
Results = dict[str, dict[str, list[Result]]]
"""By peer and case, one for each repetition."""


def run() -> list[Row]:
    """Rows for CPU time, rate and round trip."""
    results = measure()
    return [*cpu_rows(results), *rate_rows(results), *round_trip_rows(results)]


def measure() -> Results:
    """The results of the harness."""
    results = harness(list(LOADS), REPETITIONS)
    for name, found in harness(["latency"], ROUND_TRIP_REPETITIONS).items():
        results[name] |= found
    for way in WAYS:
        for case, repetitions in results[way].items():
            check(way, case, repetitions)
    return results


def harness(cases: list[str], repetitions: int) -> Results:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "results.json")
        command = [
            *(sys.executable, str(HERE.parent / "peers.py")),
            *("--plugin", str(HERE / "_adapters.py")),
            *("--peers", ",".join([BROKER, NATS, NATS_UVLOOP, *WAYS])),
            *("--cases", ",".join(cases)),
            *("--reps", str(repetitions), "--seconds", str(SECONDS)),
            *("--json", str(out)),
        ]
        subprocess.run(command, check=True, env={**os.environ, "PATH": path_with_nats()})
        results: Results = json.loads(out.read_text())["results"]
        return results


def check(way: str, case: str, found: list[Result]) -> None:
    """A figure counts only if every message came, in its place."""
    for result in found:
        if "error" in result:
            raise RuntimeError(f"{way}, {case}: {result['error']}")
        if result.get("loss", 0) or result.get("out_of_place", 0):
            raise RuntimeError(f"{way}, {case}: messages were lost or came out of order: {result}")


def cpu_rows(results: Results) -> list[Row]:
    return [
        Row(
            name=f"node, {what}, {load}",
            ours=median(results, way, case, cpu_us),
            theirs=median_or_none(results, BROKER, case, cpu_us),
            peer="pyzmq XPUB/XSUB",
            unit="us CPU",
            goal=goal if BROKER in results else None,
            is_less_better=True,
        )
        for case, load in LOADS.items()
        for way, (what, goal) in WAYS.items()
    ]


def cpu_us(result: Result) -> float:
    """CPU time of publisher, broker and all subscribers for one message published."""
    delivered_each = result["got"] / result["sent"]
    return float(result["cpu_pub"] + delivered_each * (result["cpu_sub"] + result["cpu_broker"]))


def rate_rows(results: Results) -> list[Row]:
    return [
        Row(
            name=f"node, {what}, forwarded",
            ours=median(results, way, "tput56", lambda result: float(result["rate"])),
            unit="1/s",
            goal=DAEMON_RATE,
        )
        for way, (what, _) in WAYS.items()
    ]


def round_trip_rows(results: Results) -> list[Row]:
    """Beside NATS as the harness has it, and for orientation with its client on our loop."""
    return [
        Row(
            name=f"node, {what}, round trip",
            ours=median(results, way, "latency", p50_us),
            theirs=median_or_none(results, peer, "latency", p50_us),
            peer=name,
            unit="us",
            goal=ROUND_TRIP if peer == NATS and NATS in results else None,
            is_less_better=True,
        )
        for peer, name in ((NATS, "NATS core"), (NATS_UVLOOP, "NATS core, uvloop"))
        for way, (what, _) in WAYS.items()
    ]


def p50_us(result: Result) -> float:
    return float(result["p50"])


def median(results: Results, name: str, case: str, figure: Callable[[Result], float]) -> float:
    return statistics.median(figure(r) for r in results[name][case] if "error" not in r)


def median_or_none(
    results: Results,
    name: str,
    case: str,
    figure: Callable[[Result], float],
) -> float | None:
    """The same for a peer that need not be here."""
    return median(results, name, case, figure) if name in results else None
