"""The distributor beside pyzmq and zenoh: publisher and subscribers, each a process.

`benchmarks/peers.py` runs them in turns, with the same load and a Python callback for each message.
What counts is the CPU time of both sides together for one message: rates of a shared machine say
little. Missing peers are left out and named; the rows then stand without them.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rows import Row

HERE = Path(__file__).resolve().parent
OURS, BATCH = "skerry-multicast", "skerry-mc-batch"
ZMQ, ZMQ_BATCH, ZENOH = "zmq-tcp", "zmq-batch", "zenoh"
BARE = "bare-trains"
PEERS = (OURS, BATCH, ZMQ, ZMQ_BATCH, ZENOH, BARE)
GOALS = {ZMQ: 0.25, ZMQ_BATCH: 0.6, ZENOH: 0.12}
"""The highest accepted ratio of our CPU time for an update of 56 bytes to that of each peer."""
BARE_GOAL = 1.6
"""The highest accepted ratio of our CPU time for an update of 1000 bytes to that of bare sockets.
There is no goal for the other peers at this size: most of the time is spent in the kernel, which
copies the same bytes for all."""
RATE_GOAL = 3_000_000
"""Updates per second on two idle cores."""
FAN_OUT = 3.0
ROUND_TRIP = 0.6
LOADS = {"tput56": "56 bytes", "tput1000": "1000 bytes"}
REPETITIONS = 7
SECONDS = 1.0

Result = dict[str, Any]
Results = dict[str, dict[str, list[Result]]]
"""By peer and case, one for each repetition."""


def run() -> list[Row]:
    """Rows for CPU time, rate, fan-out and round trip."""
    results = measure()
    return [*cpu_rows(results), *rate_rows(results), *other_rows(results)]


def measure() -> Results:
    """The results of the harness."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "results.json")
        command = [
            *(sys.executable, str(HERE.parent / "peers.py")),
            *("--plugin", str(HERE / "_multicast.py")),
            *("--peers", ",".join(PEERS)),
            *("--cases", ",".join([*LOADS, "fanout4", "latency"])),
            *("--reps", str(REPETITIONS), "--seconds", str(SECONDS)),
            *("--json", str(out)),
        ]
        subprocess.run(command, check=True)
        results: Results = json.loads(out.read_text())["results"]
    for ours in (OURS, BATCH):
        for case, found in results[ours].items():
            check(ours, case, found)
    return results


def check(ours: str, case: str, found: list[Result]) -> None:
    """A figure counts only if every message came, in its place."""
    for result in found:
        if "error" in result:
            raise RuntimeError(f"{ours}, {case}: {result['error']}")
        if result.get("loss", 0) or result.get("out_of_place", 0):
            raise RuntimeError(f"{ours}, {case}: messages were lost or came out of order: {result}")


def cpu_rows(results: Results) -> list[Row]:
    return [
        Row(
            name=f"distributor, {load}, {what}, beside {peer}",
            ours=median(results, ours, case, cpu_us),
            theirs=median_or_none(results, peer, case, cpu_us),
            peer=peer,
            unit="us CPU",
            goal=cpu_goal(case, peer) if ours == OURS and peer in results else None,
            is_less_better=True,
        )
        for case, load in LOADS.items()
        for ours, what in ((OURS, "each"), (BATCH, "in lists"))
        # The last one is not a peer: what sockets and callback cost alone.
        for peer in (ZMQ, ZMQ_BATCH, ZENOH, BARE)
    ]


def cpu_goal(case: str, peer: str) -> float | None:
    """The ratio of CPU times that is to be reached, if there is one."""
    if case == "tput1000":
        return BARE_GOAL if peer == BARE else None
    return GOALS.get(peer)


def cpu_us(result: Result) -> float:
    """CPU time of both sides for one message delivered."""
    return float(result["cpu_pub"] + result["cpu_sub"])


def rate_rows(results: Results) -> list[Row]:
    return [
        Row(
            name=f"distributor, 56 bytes, {what}, delivered",
            ours=median(results, ours, "tput56", rate),
            unit="1/s",
            goal=RATE_GOAL if ours == OURS else None,
        )
        for ours, what in ((OURS, "each"), (BATCH, "in lists"))
    ]


def rate(result: Result) -> float:
    return float(result["rate"])


def other_rows(results: Results) -> list[Row]:
    has_peer = ZMQ in results
    return [
        Row(
            name="distributor, 1 to 4, delivered to all",
            ours=median(results, OURS, "fanout4", rate),
            theirs=median_or_none(results, ZMQ, "fanout4", rate),
            peer=ZMQ,
            unit="1/s",
            goal=FAN_OUT if has_peer else None,
        ),
        Row(
            name="distributor, round trip",
            ours=median(results, OURS, "latency", lambda result: float(result["p50"])),
            theirs=median_or_none(results, ZMQ, "latency", lambda result: float(result["p50"])),
            peer=ZMQ,
            unit="us",
            goal=ROUND_TRIP if has_peer else None,
            is_less_better=True,
        ),
    ]


def median(results: Results, name: str, case: str, figure: Callable[[Result], float]) -> float:
    return statistics.median(figure(r) for r in results[name][case] if "error" not in r)


def median_or_none(
    results: Results, name: str, case: str, figure: Callable[[Result], float]
) -> float | None:
    """The same for a peer that need not be here."""
    return median(results, name, case, figure) if name in results else None
