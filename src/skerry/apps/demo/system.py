"""Three nodes of one system on loopback: one of them is killed, and returns.

Nodes of a system have one picture. Objects stay at their node: the tour does not share any.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from time import monotonic, sleep
from typing import Final

import skerry
from skerry.apps.demo.processes import DemoProcess, DemoProcesses
from skerry.client.api.picture import Picture, PictureNode
from skerry.client.api.sync import Space
from skerry.errors import ConnectFailed, RequestTimedOut, StartFailed

SYSTEM_NODES: Final = ("bridge", "engine", "radar")
_HEARTBEAT_MS: Final = 100
_LOST_COUNT_MAX: Final = 15
"""With the heartbeat a detection time of 2.25 s: quick, and enough for a busy computer."""
_ALONE_S: Final = 4.0
"""Longer than three nodes need to start, so that they form one system."""
_WAIT_S_MAX: Final = 40.0
_POLL_S: Final = 0.02


def connect_when_ready(endpoint: str, types: Iterable[type[skerry.Struct]] = ()) -> Space:
    """Connect to a node that is starting; ConnectFailed if it does not answer in time."""
    end_s = monotonic() + _WAIT_S_MAX
    while True:
        try:
            return skerry.connect(endpoint, name="tour", types=types)
        except ConnectFailed:
            if monotonic() > end_s:
                raise
            sleep(_POLL_S)


class DemoSystem:
    """The nodes, and a client of each that has a node. `report` receives messages."""

    def __init__(self, processes: DemoProcesses, *, report: Callable[[str], None]) -> None:
        self._processes = processes
        self._report = report
        self._ports = _free_ports(2 * len(SYSTEM_NODES))
        self._nodes: dict[str, DemoProcess] = {}
        self._spaces: dict[str, Space] = {}
        self._ending = ExitStack()

    def start(self) -> None:
        """Start all nodes. They find each other and form a system, which takes some seconds."""
        for name in SYSTEM_NODES:
            self._start(name)

    def play(self, check: Callable[[str, bool, str], None]) -> None:
        """Kill the elected node and start it again; `check` receives each guarantee, whether it was
        kept, and facts."""
        for name in SYSTEM_NODES:
            self._connect(name)
        is_one = self._wait_agreed(SYSTEM_NODES)
        self._show(SYSTEM_NODES[0])
        check(
            "all nodes of a system have one picture",
            is_one,
            f"{len(SYSTEM_NODES)} nodes, digest {self._digests()}",
        )
        killed = self._elected() or SYSTEM_NODES[0]
        is_dead = self._kill(killed)
        check(
            "a killed node is dead for all others, which elect another one",
            is_dead and self._elected() not in ("", killed),
            f"{killed}, digest {self._digests()}",
        )
        is_back = self._restart(killed)
        check(
            "a restarted node returns with a new id",
            is_back,
            f"{killed}, digest {self._digests()}",
        )

    def end(self) -> Mapping[str, int]:
        """End all nodes; returns their exit codes."""
        self.close()
        for node in self._nodes.values():
            node.signal(signal.SIGTERM)
        return {name: node.wait_end() for name, node in self._nodes.items()}

    def close(self) -> None:
        """Disconnect from all nodes."""
        self._ending.close()
        self._spaces.clear()

    # -- the failures

    def _kill(self, name: str) -> bool:
        """Kill a node; whether the others agree that it is dead, and no other one is."""
        self._spaces.pop(name).close()
        self._nodes[name].kill()
        self._report(f"{name}: process {self._nodes[name].number} killed")
        others = tuple(other for other in SYSTEM_NODES if other != name)
        started_s = monotonic()
        is_agreed = self._wait_agreed(others)
        if is_agreed:
            self._report(f"the others agree after {monotonic() - started_s:.1f} s")
        self._show(others[0])
        return is_agreed and [
            one.name for one in self._picture(others[0]).nodes if one.is_dead
        ] == [name]

    def _restart(self, name: str) -> bool:
        """Start a killed node; whether it is in the picture of all nodes, with a new id."""
        before = self._id(name)
        self._start(name)
        self._connect(name)
        is_agreed = self._wait_agreed(SYSTEM_NODES)
        self._show(name)
        return is_agreed and self._id(name) != before

    # -- inside

    def _endpoint(self, name: str) -> str:
        return f"uds:{self._processes.path / name}.sock"

    def _start(self, name: str) -> None:
        place = 2 * SYSTEM_NODES.index(name)
        control, data = (f"127.0.0.1:{port}" for port in self._ports[place : place + 2])
        seeds = json.dumps([f"127.0.0.1:{port}" for port in self._ports[::2]])
        config = self._processes.path / f"{name}.toml"
        config.write_text(
            f"""
            [node]
            name = "{name}"
            system = "demo-{self._ports[0]}"
            listen = ["{self._endpoint(name)}"]
            metrics = "off"
            storage.url = "none"
            distributor.group = "none"
            [node.peers]
            control = "{control}"
            data = "{data}"
            seeds = {seeds}
            alone_timeout_s = {_ALONE_S}
            [[node.peers.types]]
            name = "demo"
            multicast = false
            heartbeat_interval_ms = {_HEARTBEAT_MS}
            lost_heartbeat_count_max = {_LOST_COUNT_MAX}
            """,
            encoding="utf-8",
        )
        node = self._processes.start(name, "-m", "skerry", "node", "run", "--config", str(config))
        self._nodes[name] = node
        self._report(f"{name}: process {node.number} at {control}")

    def _connect(self, name: str) -> None:
        space = connect_when_ready(self._endpoint(name))
        self._ending.callback(space.close)
        self._spaces[name] = space

    def _picture(self, name: str) -> Picture:
        try:
            return self._spaces[name].picture
        except RequestTimedOut as error:
            raise StartFailed(f"node {name} has joined no system: {error}") from error

    def _digests(self) -> str:
        """The digest of the pictures that the nodes publish; several if they differ."""
        found = {f"{self._picture(name).digest % 2**64:016x}" for name in self._spaces}
        return ", ".join(sorted(found))

    def _elected(self) -> str:
        """The name of the elected node; empty if the nodes differ."""
        found: set[str] = set()
        for name in self._spaces:
            seen = self._picture(name)
            found |= {one.name for one in seen.nodes if one.id == seen.elected}
        return found.pop() if len(found) == 1 else ""

    def _id(self, name: str) -> int | None:
        """The id of the last node with this name that is in the picture of another one."""
        observer = next(other for other in self._spaces if other != name)
        nodes = [one for one in self._picture(observer).nodes if one.name == name]
        # One that is alive is last.
        nodes.sort(key=lambda one: not one.is_dead)
        return nodes[-1].id if nodes else None

    def _wait_agreed(self, names: tuple[str, ...]) -> bool:
        """Wait until these nodes have one picture, in which just they are alive."""
        end_s = monotonic() + _WAIT_S_MAX
        while True:
            pictures = [self._picture(name) for name in names]
            alive = [{one.name for one in seen.nodes if not one.is_dead} for seen in pictures]
            if len({seen.digest for seen in pictures}) == 1 and all(a == set(names) for a in alive):
                return True
            if monotonic() > end_s:
                return False
            sleep(_POLL_S)

    def _show(self, name: str) -> None:
        seen = self._picture(name)
        self._report(f"the picture of {name}, with the digest {seen.digest % 2**64:016x}:")
        for one in sorted(seen.nodes, key=lambda one: (one.is_dead, one.name)):
            self._report(f"  {_node_line(one, is_elected=one.id == seen.elected)}")


def _node_line(node: PictureNode, *, is_elected: bool) -> str:
    state = f"dead ({node.reason})" if node.is_dead else "alive"
    mark = ", elected" if is_elected else ""
    return f"{node.name}: {state}{mark}, id {node.id % 2**64:016x}"


def _free_ports(count: int) -> list[int]:
    """Ports of UDP that are free now."""
    with ExitStack() as ending:
        probes = [
            ending.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for _ in range(count)
        ]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
