"""Networks of namespaces for tests: hosts with real interfaces, nodes as processes, faults.

A host is a network namespace with an interface of its own. The hosts of a network are connected by
a bridge, or by a relay in user space that loses, repeats and reorders frames. Nothing of it has a
name outside: a namespace ends with the processes in it, and these end with the test, even if it is
killed, because they read from it. No privileges are required where users may have namespaces.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

import pytest

from skerry.protocol.rtps.entities import Channel
from skerry.runtime.udp.system_addresses import default_group
from tests.namespaces import in_namespace, require_nft

__all__ = [
    "DEAD_S",
    "PATIENCE_S",
    "ROOT",
    "SERVER",
    "SERVER_V6",
    "Host",
    "Network",
    "NetworkNode",
    "Relay",
    "agree",
    "node_type",
    "together",
    "until",
]

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PATIENCE_S: Final = 30.0
"""How long a test waits for what has to happen; a busy computer needs longer than it should."""
DEAD_S: Final = 1.5
"""Silence after which a node of the types below counts as dead."""


def node_type(name: str = "server", *, position: int = 1, **fields: Any) -> dict[str, Any]:
    """A node type with short times, in the groups of its position; none of them for 0."""
    is_v6 = bool(fields.pop("ipv6", False))
    made = {"name": name, "heartbeat_interval_ms": 100, "lost_heartbeat_count_max": 10, **fields}
    if position:
        for channel in Channel:
            group = default_group(position, 77, channel, is_v6=is_v6)
            made[f"multicast_{channel.name.lower()}"] = group
    return made


SERVER: Final = node_type()
SERVER_V6: Final = node_type(ipv6=True)


def until(
    condition: Callable[[], object],
    what: str | Callable[[], str] = "it did not happen in time",
    *,
    limit_s: float = PATIENCE_S,
) -> float:
    """Wait for a condition; return how long that took in seconds."""
    started_s = time.monotonic()
    while not condition():
        if time.monotonic() - started_s >= limit_s:
            raise AssertionError(what if isinstance(what, str) else what())
        time.sleep(0.02)
    return time.monotonic() - started_s


class Host:
    """A network namespace with its interfaces."""

    def __init__(self, network: Network, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self._network = network
        self._holder = network.hold("unshare", "-n")
        self.prefix = _inside(self._holder)
        """Runs what follows in this host."""
        self.ip("link set lo up")

    @property
    def pid(self) -> int:
        """A process in the namespace."""
        return self._holder.pid

    def address(self, lan: int = 0, *, ipv6: bool = False) -> str:
        """Its address in a network."""
        return f"fd{77 + lan}::{self.number}" if ipv6 else f"10.{77 + lan}.0.{self.number}"

    def ip(self, *commands: str) -> None:
        """Run commands of `ip`."""
        _run([*self.prefix, "ip", "-batch", "-"], "\n".join(commands))

    def set_up(self, lan: int = 0) -> None:
        """Give an interface its addresses, and start it."""
        name = f"eth{lan}"
        self.ip(
            f"link set {name} up",
            f"address replace {self.address(lan)}/24 dev {name}",
            f"address replace {self.address(lan, ipv6=True)}/64 dev {name} nodad",
        )

    def plug(self, lan: int = 0) -> None:
        """Add an interface that is connected to a bridge."""
        self._network.ip(
            f"link add {self._port(lan)} type veth peer name eth{lan} netns {self.pid}",
            f"link set {self._port(lan)} master br{lan} up",
        )
        self.set_up(lan)

    def unplug(self, lan: int = 0) -> None:
        """Remove an interface."""
        self.ip(f"link delete eth{lan}")

    def cable_out(self, lan: int = 0) -> None:
        """Interrupt the connection to a bridge; the interface stays."""
        self._network.ip(f"link set {self._port(lan)} down")

    def cable_in(self, lan: int = 0) -> None:
        """Connect it again."""
        self._network.ip(f"link set {self._port(lan)} up")

    def _port(self, lan: int) -> str:
        return f"h{self.number}l{lan}"

    def filter(self, *rules: str, hook: str = "input") -> None:
        """Apply rules of nftables to what arrives, in place of the ones before."""
        chain = "\n".join((f"type filter hook {hook} priority 0;", *rules))
        table = f"table inet faults {{\nchain it {{\n{chain}\n}}\n}}"
        text = f"table inet faults\ndelete table inet faults\n{table}"
        _run([*self.prefix, require_nft(), "-f", "-"], text)

    def cut(self, *others: Host) -> None:
        """Drop all datagrams from these hosts, except what the kernels need to find each other."""
        sources = ", ".join(one.address() for one in others)
        self.filter(f"ip saddr {{ {sources} }} drop")

    def counted(self) -> int:
        """The packets that the rules with a counter have seen."""
        shown = _run([*self.prefix, require_nft(), "-j", "list", "table", "inet", "faults"])
        rules = [one["rule"] for one in json.loads(shown)["nftables"] if "rule" in one]
        return sum(
            part["counter"]["packets"]
            for rule in rules
            for part in rule["expr"]
            if "counter" in part
        )


class Network:
    """Some hosts, the first of which has the address 10.77.0.1."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hosts: list[Host] = []
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        prefix = in_namespace()
        try:
            self._holder = self._hold(prefix)
            self.prefix = _inside(self._holder)
        except BaseException:
            self._ending.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.__exit__(kind, error, trace)

    def hold(self, *command: str) -> subprocess.Popen[str]:
        """Start a process whose namespace exists as long as this network."""
        return self._hold([*self.prefix, *command])

    def _hold(self, prefix: Sequence[str]) -> subprocess.Popen[str]:
        holder = self.start([*prefix, "sh", "-c", "echo here; exec cat >/dev/null"])
        assert holder.stdout is not None
        assert holder.stdout.readline() == "here\n", "the namespace cannot be made"
        return holder

    def start(self, command: Sequence[str], *, log: str = "") -> subprocess.Popen[str]:
        """Start a process that ends with this network."""
        errors = self._ending.enter_context((self.folder / (log or "network.log")).open("a"))
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
        )
        self._ending.callback(_end, process)
        return process

    def ip(self, *commands: str) -> None:
        """Run commands of `ip` where the bridges are."""
        _run([*self.prefix, "ip", "-batch", "-"], "\n".join(commands))

    def host(self, name: str) -> Host:
        """A host without an interface."""
        made = Host(self, name, len(self.hosts) + 1)
        self.hosts.append(made)
        return made

    def bridge(self, lan: int = 0) -> None:
        """A bridge, to which interfaces of this number are connected."""
        # A switch would have to ask who listens in a group before it can leave others out.
        self.ip(f"link add br{lan} type bridge mcast_snooping 0", f"link set br{lan} up")

    def bridged(self, names: Iterable[str]) -> list[Host]:
        """Hosts at one bridge."""
        self.bridge()
        made = [self.host(name) for name in names]
        for one in made:
            one.plug()
        return made

    def relayed(self, names: Iterable[str], **options: Any) -> tuple[list[Host], Relay]:
        """Hosts at a relay; see `Relay`."""
        made = [self.host(name) for name in names]
        relay = Relay(self, made, **options)
        for one in made:
            one.set_up()
        return made, relay


class Relay:
    """A process that carries the frames of hosts, and loses, repeats and reorders datagrams."""

    def __init__(
        self,
        network: Network,
        hosts: Sequence[Host],
        *,
        loss: float = 0.0,
        repeat: float = 0.0,
        reorder: float = 0.0,
        seed: int = 1,
        capture: Path | None = None,
    ) -> None:
        """The shares are those of the datagrams to each host. `capture` is a file for frames."""
        if not Path("/dev/net/tun").exists():
            pytest.skip("there is no /dev/net/tun, with which frames are passed to programs")
        given = {
            "pids": [host.pid for host in hosts],
            "loss": loss,
            "repeat": repeat,
            "reorder": reorder,
            "seed": seed,
            "capture": str(capture or ""),
        }
        command = [sys.executable, "-m", "tests.runtime.network_relay", json.dumps(given)]
        self._process = network.start([*network.prefix, *command], log="relay.log")
        self.counts: dict[str, int] = {}
        """How many datagrams were passed on, lost, repeated and reordered, after `stop`."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n", (
            network.folder / "relay.log"
        ).read_text()

    def stop(self) -> None:
        """Carry no more frames; the file is complete."""
        out, _ = self._process.communicate(timeout=PATIENCE_S)
        self.counts = json.loads(out)


class NetworkNode:
    """A process with a node of a system; see `network_node`."""

    def __init__(
        self,
        host: Host,
        name: str = "",
        *,
        types: Sequence[dict[str, Any]] = (SERVER,),
        ipv6: bool = False,
        **given: Any,
    ) -> None:
        """`given` are further parameters of the node."""
        self.host = host
        self.name = name or host.name
        address = f"[{host.address(ipv6=True)}]" if ipv6 else host.address()
        config = {"name": self.name, "types": list(types), "address": address, **given}
        program = [sys.executable, "-m", "tests.runtime.network_node", json.dumps(config)]
        self._log = host._network.folder / f"{self.name}.log"
        self.process = host._network.start([*host.prefix, *program], log=self._log.name)

    @cached_property
    def node(self) -> int:
        """Its id when this is asked first."""
        return int(self.status["node"])

    def ask(self, action: str, **given: Any) -> dict[str, Any]:
        """Let the process do something; return its answer."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"action": action, **given}) + "\n")
        stdin.flush()
        line = stdout.readline()
        assert line, self._log.read_text()
        found: dict[str, Any] = json.loads(line)
        return found

    @property
    def status(self) -> dict[str, Any]:
        """What it knows and has counted."""
        return self.ask("status")

    def publish(self, count: int, size: int = 0) -> None:
        """Begin to send messages to all nodes."""
        self.ask("publish", count=count, size=size)

    def has_received(self, count: int, *senders: NetworkNode) -> bool:
        """Whether it has received so many messages of each of these nodes."""
        received = self.status["received"]
        return all(received.get(one.name, 0) >= count for one in senders)

    def kill(self) -> None:
        """End it without notice."""
        self.process.kill()
        self.process.wait()

    def deaths(self) -> dict[str, int]:
        """The nodes that it has seen excluded, each with the last reason."""
        return dict(self.status["deaths"])

    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text()


def together(hosts: Sequence[Host], **given: Any) -> list[NetworkNode]:
    """A node on each host, all of which are one system: that of the first one.

    It has the highest id, so that it is elected. A function among the parameters is called with the
    name of each host.
    """
    ids = sorted(Random().sample(range(1, 1 << 62), len(hosts)), reverse=True)
    nodes: list[NetworkNode] = []
    for node, host in zip(ids, hosts, strict=True):
        own = {key: value(host.name) if callable(value) else value for key, value in given.items()}
        # Only the first one forms a system. It is there when the others ask for it.
        nodes.append(NetworkNode(host, **{"id": node, "alone_s": 60 if nodes else 0.5, **own}))
        assert nodes[0].node
    until(lambda: agree(*nodes), lambda: str([node.status for node in nodes]))
    return nodes


def agree(*nodes: NetworkNode) -> bool:
    """Whether these nodes have one picture, and just these are alive in it."""
    names = sorted(node.name for node in nodes)
    found = [node.status for node in nodes]
    return len({one["digest"] for one in found}) == 1 and all(
        one["alive"] == names for one in found
    )


def _inside(holder: subprocess.Popen[str]) -> list[str]:
    return ["nsenter", "-t", str(holder.pid), "-U", "-n", "--preserve-credentials"]


def _run(command: Sequence[str], given: str = "") -> str:
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{' '.join(command)}: {given}\n{done.stderr}"
    return done.stdout


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                continue
