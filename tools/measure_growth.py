"""Measures how a system of nodes grows with their number, and writes the page about it.

measure 3 5 10    in the simulator: one line of JSON for each number of nodes
processes 3 5 10  with real nodes on loopback: the same
write             the tables and the plot of docs/internals/growth.md

Results are kept in docs/internals/growth.json; those of the same number of nodes are replaced.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Final

from skerry.protocol.picture.bodies import write_raw, write_state
from skerry.testing.checkers import Checker
from skerry.testing.machines.system_site import DATA_PORT, TYPES, SystemSite
from skerry.testing.packet import MULTICAST, Packet
from skerry.testing.world import MS, SECOND, World

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "internals" / "growth.md"
RESULTS: Final = PAGE.with_suffix(".json")
PLOT: Final = PAGE.with_suffix(".svg")
IDLE_S: Final = 30
"""Raw statistics are sent once in this time."""
FORMULA_SIZES: Final = (200, 500, 1000)
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how a system grows, write the page.")
    parser.add_argument("step", choices=["measure", "processes", "write"])
    parser.add_argument("counts", nargs="*", type=int, help="numbers of nodes")
    arguments = parser.parse_args()
    if arguments.step == "write":
        write()
    for count in arguments.counts:
        row = measure(count) if arguments.step == "measure" else processes(count)
        print(json.dumps(row), flush=True)
        keep(row)


def keep(row: Row) -> None:
    """Add a row to the results, in place of the one of the same size."""
    name = name_of(row)
    rows = [one for one in results() if one.get(name) != row[name]]
    rows = sorted([*rows, row], key=lambda one: (name_of(one), one[name_of(one)]))
    text = ",\n".join(json.dumps(one) for one in rows)
    RESULTS.write_text(f"[\n{text}\n]\n", encoding="utf-8")


def name_of(row: Row) -> str:
    """The key that has the number of nodes."""
    return "nodes" if "nodes" in row else "processes"


def results() -> list[Row]:
    """The rows so far."""
    found: list[Row] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    return found


class Traffic(Checker):
    """Counts what arrives, from one node to another."""

    def __init__(self) -> None:
        self.is_counting = False
        self.counts = {"unicast": 0, "multicast": 0}
        self.bytes = {"unicast": 0, "multicast": 0}
        self.data_bytes = 0

    def arrived(self, packet: Packet) -> str | None:
        if self.is_counting and packet.source is not packet.destination:
            kind = "multicast" if packet.kind == MULTICAST else "unicast"
            self.counts[kind] += 1
            self.bytes[kind] += len(packet.data)
            if packet.to.port in (DATA_PORT, SERVER_DATA_PORT):
                self.data_bytes += len(packet.data)
        return None


SERVER_DATA_PORT: Final = 26651


def measure(count: int) -> Row:
    """Form a system of so many nodes, let it idle, and let two nodes crash."""
    world = World(1, event_count_max=10**10)
    site, traffic = SystemSite(world=world), Traffic()
    world.watch(traffic)
    rng, started_s = world.random("starts"), time.process_time()
    names = [f"node-{number}" for number in range(count)]
    for name in names:
        site.add(name, by_group=True)
        world.run_for(rng.randrange(1, 2 * SECOND // count))
    traffic.is_counting = True
    first_ns = world.now_ns
    until(site, names)
    row: Row = {"nodes": count, "form_s": (world.now_ns - first_ns) / SECOND}
    row["form_bytes_received"] = round(sum(traffic.bytes.values()) / count)
    world.run_for(35 * SECOND)
    row |= idle(site, traffic, count)
    machine = site.nodes[names[0]].machine
    assert machine.state is not None
    row["raw_bytes"] = len(write_raw(machine.picture.raw()))
    row["state_bytes"] = len(write_state(machine.state))
    row["memory_bytes"] = deep_size(machine, [world, TYPES])
    elected = machine.state.elected_id
    (leader,) = [name for name in names if site.id_of(name) == elected]
    others = [name for name in names if name != leader]
    for key, victim in (("crash_s", others[-1]), ("elected_crash_s", leader)):
        names = [name for name in names if name != victim]
        crashed_ns = world.now_ns
        site.crash(victim)
        until(site, names)
        row[key] = (world.now_ns - crashed_ns) / SECOND
        world.run_for(6 * SECOND)
    joined_ns = world.now_ns
    site.add("late", by_group=True)
    until(site, [*names, "late"])
    row["join_s"] = (world.now_ns - joined_ns) / SECOND
    row["cpu_s"] = round(time.process_time() - started_s, 1)
    return row


def until(site: SystemSite, names: list[str]) -> None:
    """Run until these nodes have one picture."""
    while not site.agree(*names):
        site.world.run_for(50 * MS)


def idle(site: SystemSite, traffic: Traffic, count: int) -> Row:
    """The traffic of each node and second while nothing happens."""
    traffic.__init__()  # type: ignore[misc]
    traffic.is_counting = True
    site.world.run_for(IDLE_S * SECOND)
    traffic.is_counting = False
    share = count * IDLE_S
    # All nodes are in all groups: a datagram to a group arrives at all others.
    sent = {kind: traffic.counts[kind] for kind in traffic.counts}
    sent_bytes = traffic.bytes["unicast"] + traffic.bytes["multicast"] / (count - 1)
    return {
        "sent_per_s": round((sent["unicast"] + sent["multicast"] / (count - 1)) / share, 2),
        "sent_bytes_per_s": round(sent_bytes / share),
        "received_per_s": round(sum(traffic.counts.values()) / share, 2),
        "received_bytes_per_s": round(sum(traffic.bytes.values()) / share),
        "data_received_bytes_per_s": round(traffic.data_bytes / share),
    }


def deep_size(root: object, others: list[object]) -> int:
    """The bytes of an object and all that it needs, but for code and some others."""
    shared = (type, ModuleType, FunctionType, BuiltinFunctionType)
    seen = {id(one) for one in others}
    left, size = [root], 0
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, shared):
            continue
        seen.add(id(one))
        size += sys.getsizeof(one)
        left += gc.get_referents(one)
    return size


def processes(count: int) -> Row:
    """Start so many nodes as processes on loopback, and let them idle."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ending:
        domain = free_domain()
        nodes = [start(Path(folder), f"node-{number}", domain) for number in range(count)]
        for process, _ in nodes:
            ending.callback(process.kill)
        deadline_s = time.monotonic() + 120
        while not all(status(page)["alive_count"] == count for _, page in nodes):
            assert time.monotonic() < deadline_s, "the nodes do not find each other"
            time.sleep(0.5)
        time.sleep(10)
        before, started_s = [snapshot(*one) for one in nodes], time.monotonic()
        time.sleep(IDLE_S)
        after, passed_s = [snapshot(*one) for one in nodes], time.monotonic() - started_s
        cpu_s, received, received_bytes, memory = (
            sum(late[index] - early[index] for early, late in zip(before, after, strict=True))
            for index in range(4)
        )
        share = count * passed_s
        return {
            "processes": count,
            "cpu_percent": round(100 * cpu_s / share, 2),
            "received_per_s": round(received / share, 2),
            "received_bytes_per_s": round(received_bytes / share),
            "memory_bytes": round(sum(one[3] for one in after) / count),
            "growth_bytes": memory,
        }


def start(folder: Path, name: str, domain: int) -> tuple[subprocess.Popen[str], str]:
    """Start a node; return its process and the address of its status."""
    config = folder / f"{name}.toml"
    config.write_text(
        f"""
        [node]
        name = "{name}"
        system = "growth"
        listen = ["uds:{folder}/{name}.sock"]
        metrics = "127.0.0.1:0"
        storage.url = "none"
        distributor.group = "none"
        [node.peers]
        control = "127.0.0.1"
        domain = {domain}
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "skerry", "--config", str(config), "node", "run", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"SKERRY_RUNTIME_DIR": str(folder), "SKERRY_STATE_DIR": str(folder)},
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["metrics"]


def free_domain() -> int:
    """A domain whose first port is free."""
    for domain in range(10, 77):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind(("", 7400 + 250 * domain))
            except OSError:
                continue
            return domain
    raise AssertionError("no domain is free")


def status(page: str) -> Row:
    """What a node reports of its system."""
    with urllib.request.urlopen(f"http://{page}/status.json", timeout=30) as found:
        system: Row = json.loads(found.read())["system"]
    return system


def snapshot(process: subprocess.Popen[str], page: str) -> tuple[float, int, int, int]:
    """CPU time, datagrams and bytes received, and resident memory of a node."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    machine = status(page)["machine"]
    peers = [*machine["control"]["peers"], *machine["data"]["peers"]]
    return (
        ticks / os.sysconf("SC_CLK_TCK"),
        sum(peer["received_packet_count"] for peer in peers),
        sum(peer["received_bytes"] for peer in peers),
        resident * os.sysconf("SC_PAGE_SIZE"),
    )


# -- the page


class Formula:
    """A figure as a sum of terms of the number of nodes, fitted to what was measured."""

    def __init__(self, rows: list[Row], key: str, *terms: str) -> None:
        self.terms = terms
        # In proportion to the figure: small systems count as much as large ones.
        shares = [[term_of(term, row["nodes"]) / row[key] for term in terms] for row in rows]
        places = range(len(terms))
        matrix = [[sum(one[i] * one[j] for one in shares) for j in places] for i in places]
        self.factors = solved(matrix, [sum(one[i] for one in shares) for i in places])

    def __call__(self, count: float) -> float:
        pairs = zip(self.factors, self.terms, strict=True)
        return sum(factor * term_of(term, count) for factor, term in pairs)

    def __str__(self) -> str:
        pairs = zip(self.factors, self.terms, strict=True)
        found = [f"{rounded(factor)} {'' if term == '1' else term}" for factor, term in pairs]
        return " + ".join(one.strip() for one in found).replace("+ -", "- ")


def term_of(term: str, count: float) -> float:
    """The value of a term. `s` is by how much less often raw statistics are sent."""
    slowed = max(1, (count - 1) // 50)
    return {"1": 1.0, "n": count, "n²": count**2, "n²/s": count**2 / slowed}[term]


def solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """The solution of a few linear equations, by Gaussian elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = rows[i] = [value / rows[i][i] for value in rows[i]]
        for j, row in enumerate(rows):
            if j != i:
                rows[j] = [a - row[i] * b for a, b in zip(row, pivot, strict=True)]
    return [row[-1] for row in rows]


SHAPES: Final = {
    "received_per_s": ("datagrams received, 1/s", ("1", "n", "n²/s")),
    "received_bytes_per_s": ("bytes received, 1/s", ("1", "n", "n²/s")),
    "sent_per_s": ("datagrams sent, 1/s", ("1", "n")),
    "sent_bytes_per_s": ("bytes sent, 1/s", ("1", "n")),
    "raw_bytes": ("raw statistics, bytes", ("n",)),
    "state_bytes": ("state, bytes", ("n",)),
    "memory_bytes": ("memory for the system, bytes", ("1", "n", "n²")),
    "form_bytes_received": ("received while it forms, bytes", ("n", "n²")),
}
TIMES: Final = {
    "form_s": "until the system has formed",
    "join_s": "until a further node has joined",
    "crash_s": "until a crash is in all pictures",
    "elected_crash_s": "until that of the elected node is",
}


def write() -> None:
    """Write the tables of the page between their marks, and the plot."""
    rows = [row for row in results() if "nodes" in row]
    formulas = {key: Formula(rows, key, *terms) for key, (_, terms) in SHAPES.items()}
    text = PAGE.read_text(encoding="utf-8")
    for mark, table in (
        ("growth", growth_table(rows, formulas)),
        ("times", times_table(rows)),
        ("processes", processes_table([row for row in results() if "processes" in row])),
    ):
        begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        head, *lines = (f"| {' | '.join(line)} |\n" for line in table)
        rule = f"|{'---|' * len(table[0])}\n"
        # A comment in the line after a table would be a row of it.
        text = f"{before}{begin}\n{head}{rule}{''.join(lines)}\n{end}{after}"
    PAGE.write_text(text, encoding="utf-8")
    PLOT.write_text(plot(rows, formulas), encoding="utf-8")


def growth_table(rows: list[Row], formulas: dict[str, Formula]) -> list[list[str]]:
    """What was measured, the formulas, and their values for larger systems."""
    counts = [row["nodes"] for row in rows]
    table = [["per node", *map(str, counts), "formula", *map(str, FORMULA_SIZES)]]
    for key, (label, _) in SHAPES.items():
        formula = formulas[key]
        beyond = [rounded(formula(count)) for count in FORMULA_SIZES]
        table.append([label, *(rounded(row[key]) for row in rows), str(formula), *beyond])
    memory = formulas["memory_bytes"]
    measured = [rounded(row["memory_bytes"] / (row["nodes"] - 1)) for row in rows]
    beyond = [rounded(memory(count) / (count - 1)) for count in FORMULA_SIZES]
    return [*table, ["memory per peer, bytes", *measured, "", *beyond]]


def times_table(rows: list[Row]) -> list[list[str]]:
    """The times that were measured."""
    lines = [[label, *(f"{row[key]:.1f}" for row in rows)] for key, label in TIMES.items()]
    return [["seconds", *(str(row["nodes"]) for row in rows)], *lines]


def processes_table(rows: list[Row]) -> list[list[str]]:
    """What real nodes used."""
    head = ["processes", "CPU of each, %", "datagrams received, 1/s", "bytes received, 1/s"]
    lines = [
        [
            str(row["processes"]),
            f"{row['cpu_percent']:.2f}",
            f"{row['received_per_s']:.1f}",
            rounded(row["received_bytes_per_s"]),
            f"{row['memory_bytes'] / 1e6:.0f}",
        ]
        for row in rows
    ]
    return [[*head, "resident, MB"], *lines]


def rounded(value: float) -> str:
    """A figure with three digits, and spaces between thousands."""
    if abs(value) < 100:
        return f"{value:.3g}"
    digits = 10 ** (len(str(int(abs(value)))) - 3)
    return f"{round(value / digits) * digits:,.0f}".replace(",", " ")


WIDTH: Final = 640
HEIGHT: Final = 400
LEFT: Final = 70
BOTTOM: Final = 350
LINES: Final = (("received", "#0a6ebd"), ("sent", "#c4480c"))


def plot(rows: list[Row], formulas: dict[str, Formula]) -> str:
    """Bytes per node and second over the number of nodes, both logarithmic, as SVG."""
    font = 'font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {font}>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for power in range(2, 7):
        y = y_of(10**power)
        parts.append(line(LEFT, y, WIDTH - 20, y))
        parts.append(label(LEFT - 8, y + 4, f"{10**power:,}".replace(",", " "), "end"))
    for count in (3, 10, 30, 100, 300, 1000):
        x = x_of(count)
        parts.append(line(x, 20, x, BOTTOM))
        parts.append(label(x, BOTTOM + 18, str(count), "middle"))
    for name, colour in LINES:
        key = f"{name}_bytes_per_s"
        steps = [3 * (1000 / 3) ** (step / 60) for step in range(61)]
        points = " ".join(f"{x_of(one):.1f},{y_of(formulas[key](one)):.1f}" for one in steps)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-dasharray="4 3"/>'
        )
        for row in rows:
            x, y = x_of(row["nodes"]), y_of(row[key])
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
        parts.append(label(WIDTH - 24, y_of(formulas[key](1000)) - 8, name, "end", colour))
    parts.append(label(LEFT, 14, "bytes per node and second when idle"))
    note = "nodes; dots are measured, lines are the formula"
    parts.append(label(WIDTH - 20, BOTTOM + 40, note, "end"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def x_of(count: float) -> float:
    """Where a number of nodes is."""
    return LEFT + math.log(count / 3) / math.log(1000 / 3) * (WIDTH - LEFT - 20)


def y_of(value: float) -> float:
    """Where bytes per second are."""
    return BOTTOM - (math.log10(value) - 2) / 4 * (BOTTOM - 20)


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    """A line of the grid."""
    return f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" stroke="#ddd"/>'


def label(x: float, y: float, text: str, anchor: str = "start", colour: str = "#333") -> str:
    """A text."""
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{colour}">{text}</text>'


if __name__ == "__main__":
    main()
