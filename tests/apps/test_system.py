"""Nodes of a system as processes on loopback: one picture, exclusion, return, seals."""

from __future__ import annotations

import json
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

import skerry

pytestmark = pytest.mark.slow

PATIENCE_S: Final = 60.0
"""How long a test waits for what has to happen; a busy computer needs longer than it should."""
_NEVER_SILENT: Final = 20_000
"""Milliseconds between keep-alives with which no test waits for silence: it takes minutes."""


@dataclass(kw_only=True)
class Node:
    """A running node, and a client of it."""

    name: str
    process: subprocess.Popen[str]
    place: str
    pages: str
    space: skerry.Space = field(init=False)

    @property
    def picture(self) -> skerry.Picture:
        return self.space.picture

    def alive(self) -> set[str]:
        return {one.name for one in self.picture.nodes if not one.is_dead}

    def dead(self) -> dict[str, str]:
        """The reasons of the dead nodes, by name."""
        return {one.name: one.reason for one in self.picture.nodes if one.is_dead}

    def page(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.pages}{path}", timeout=10) as found:
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def status(self) -> Any:
        return json.loads(self.page("/status.json")[1])["system"]

    def strangers(self) -> int:
        """Datagrams of nodes that do not belong to its system."""
        return int(self.status()["machine"]["control"]["drops"].get("stranger", 0))


class Site:
    """Folders, and a domain that nothing else on this computer uses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.domain = _free_domain()
        foreign = ("SKERRY_", "DOTS_", "XDG_")
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        self.environ |= {
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
            "SKERRY_RUNTIME_DIR": str(folder / "run"),
            "SKERRY_STATE_DIR": str(folder / "state"),
        }

    @contextmanager
    def node(
        self,
        name: str,
        *arguments: str,
        system: str = "harbour",
        heartbeat_ms: int = 100,
        peers: str = "",
        types: str = "",
        address: str = "127.0.0.1",
        multicast: bool = True,
        is_member: bool = True,
    ) -> Iterator[Node]:
        """A node, by default with a detection time of 1.5 s."""
        config = self.folder / f"{name}.toml"
        config.write_text(
            f"""
            [node]
            name = "{name}"
            system = "{system}"
            listen = ["uds:{self.folder}/{name}.sock"]
            metrics = "127.0.0.1:0"
            storage.url = "none"
            distributor.group = "none"
            [node.peers]
            control = "{address}"
            domain = {self.domain}
            alone_timeout_s = 4
            {peers}
            [[node.peers.types]]
            name = "server"
            multicast = {str(multicast).lower()}
            heartbeat_interval_ms = {heartbeat_ms}
            lost_heartbeat_count_max = 10
            {types}
            """
        )
        command = [sys.executable, "-m", "skerry", "--config", str(config), "node", "run"]
        with (
            (self.folder / f"{name}.log").open("w") as log,
            subprocess.Popen(
                [*command, "--json", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=self.environ,
                cwd=self.folder,
            ) as process,
        ):
            try:
                assert process.stdout is not None
                ready = json.loads(process.stdout.readline())
                (place,) = ready["listen"]
                made = Node(name=name, process=process, place=place, pages=ready["metrics"])
                with skerry.connect(place, name="test") as made.space:
                    if is_member:
                        until(lambda: made.page("/readyz")[0] == 200, f"{name} has not joined")
                    yield made
            finally:
                process.send_signal(signal.SIGCONT)
                process.kill()

    @contextmanager
    def command(self, *words: str, at: Node) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [sys.executable, "-m", "skerry", *words, "--node", at.place],
            stdout=subprocess.PIPE,
            text=True,
            env=self.environ,
            cwd=self.folder,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()


def _free_domain() -> int:
    """A domain whose ports are free now, below those that the system gives to programs."""
    for domain in random.Random().sample(range(10, 77), 60):
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.bind(("", 7400 + 250 * domain))
                return domain
        except OSError:
            continue
    raise AssertionError("no domain is free")


def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait for a condition."""
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, what or "it did not happen in time"
        time.sleep(0.02)


def agree(*nodes: Node) -> bool:
    """Whether these nodes have one picture, in which just these are alive."""
    names = {node.name for node in nodes}
    return len({node.picture.digest for node in nodes}) == 1 and all(
        node.alive() == names for node in nodes
    )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def three(site: Site, ending: ExitStack, **options: Any) -> tuple[Node, Node, Node]:
    """Three nodes that have one picture. They start one after the other, and join."""
    a, b, c = (ending.enter_context(site.node(name, **options)) for name in "abc")
    until(lambda: agree(a, b, c), "the nodes have different pictures")
    return a, b, c


def test_three_nodes_find_each_other_and_a_killed_one_is_dead_for_the_others(site: Site) -> None:
    with ExitStack() as ending:
        a, b, c = three(site, ending)
        assert {one.picture.node for one in (a, b, c)} == {one.id for one in a.picture.nodes}
        assert len({one.picture.incarnation for one in (a, b, c)}) == 1
        assert len({one.picture.elected for one in (a, b, c)}) == 1
        watching = ending.enter_context(site.command("picture", "--watch", "--json", at=a))
        shown = _lines(watching)
        assert _alive_in(shown.get(timeout=PATIENCE_S)) == {"a", "b", "c"}
        with site.command("top", "--json", "--count", "1", at=a) as top:
            top_of_a = json.loads(top.communicate()[0])
        assert {one["name"]: one["state"] for one in top_of_a["peers"]} == {
            "b": "alive",
            "c": "alive",
        }
        assert all(one["lag_s"] is not None for one in top_of_a["peers"])
        assert len(top_of_a["links"]) == 6
        c.process.kill()
        until(lambda: agree(a, b), "the killed node is still alive for the others")
        # The state without the killed node may follow that in which another node is elected.
        until(lambda: _alive_in(shown.get(timeout=PATIENCE_S)) == {"a", "b"})
        assert a.dead() == b.dead() == {"c": "silent"}
        status = a.status()
        assert (status["is_member"], status["alive_count"]) == (True, 2)
        assert status["exclusions"] == {"silent": 1}
        assert "skerry_system_is_member 1.0" in a.page("/metrics")[1]
        with site.command("picture", "forget", "c", at=a) as forgetting:
            assert forgetting.communicate()[0].startswith("forgotten: c (")
        until(lambda: not b.dead(), "the dead node is not forgotten everywhere")
        with site.command("picture", "--raw", "--json", at=b) as showing:
            rows = [json.loads(line) for line in showing.communicate()[0].splitlines()]
        assert {(row["observer_name"], row["node_name"]) for row in rows} == {
            *(("a", "b"), ("b", "a")),
        }


def _lines(process: subprocess.Popen[str]) -> queue.Queue[str]:
    """The lines that a process prints, also those that it prints later."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in process.stdout or ():
            lines.put(line)

    threading.Thread(target=read).start()
    return lines


def _alive_in(line: str) -> set[str]:
    return {node["name"] for node in json.loads(line)["nodes"] if not node["is_dead"]}


def test_a_node_that_stops_says_so(site: Site) -> None:
    with ExitStack() as ending:
        a, b, c = three(site, ending, heartbeat_ms=_NEVER_SILENT)
        c.process.terminate()
        until(lambda: a.dead() == b.dead() == {"c": "ordered"}, "the notice had no effect")
        assert agree(a, b)
        assert c.process.wait(PATIENCE_S) == 0
        assert "a node of the system stopped" in site.log("a")
        assert "excluded" not in site.log("c")


def test_nodes_find_each_other_by_a_list_of_seeds_without_multicast(site: Site) -> None:
    first = 7400 + 250 * site.domain + 10
    ports = [first, first + 2, first + 4]
    seeds = json.dumps([f"127.0.0.1:{port}" for port in ports[:2]])
    with ExitStack() as ending:
        nodes = three(site, ending, peers=f"seeds = {seeds}", multicast=False)
        a = nodes[0]
        assert {one.control for one in a.picture.nodes} == {f"127.0.0.1:{port}" for port in ports}
        assert {one.node_type for one in a.picture.nodes} == {"server"}


_PANEL: Final = """
[[node.peers.types]]
name = "panel"
multicast = false
light = true
may_form_system = false
heartbeat_interval_ms = 100
lost_heartbeat_count_max = 10
"""


def test_a_light_node_attaches_detaches_and_attaches_again(site: Site) -> None:
    with ExitStack() as ending:
        # The panel is detached: alone, until there is a full node.
        panel = ending.enter_context(site.node("panel", "--node-type", "panel", types=_PANEL))
        until(lambda: panel.picture.is_detached)
        assert [(one.kind, one.id < 0) for one in panel.picture.nodes] == [("light", True)]
        with site.node("a", types=_PANEL) as a:
            until(lambda: agree(a, panel), "the light node has not attached")
            until(lambda: not panel.picture.is_detached)
            assert a.picture.elected == a.picture.node
            a.process.kill()
            until(lambda: panel.picture.is_detached and panel.alive() == {"panel"})
        with site.node("b", types=_PANEL) as b:
            until(lambda: agree(b, panel), "the light node has not attached to the other node")
            assert [one.generation for one in b.picture.nodes if one.name == "panel"] == [0]


def test_nodes_find_each_other_over_ipv6(site: Site) -> None:
    seed = f"[::1]:{7400 + 250 * site.domain + 10}"
    with ExitStack() as ending:
        # By unicast: a loopback interface has no route for multicast of IPv6.
        a, b = (
            ending.enter_context(site.node(name, "--seed", seed, address="[::1]", multicast=False))
            for name in "ab"
        )
        until(lambda: agree(a, b))
        assert all(one.control.startswith("[::1]:") for one in a.picture.nodes)


def test_an_excluded_node_joins_again_with_a_new_id(site: Site) -> None:
    with ExitStack() as ending:
        a, b, c = three(site, ending)
        before = c.picture.node
        c.process.send_signal(signal.SIGSTOP)
        until(lambda: agree(a, b), "the stopped process is still alive for the others")
        c.process.send_signal(signal.SIGCONT)
        until(lambda: agree(a, b, c), "the node has not returned")
        assert c.picture.node != before
        assert a.dead() == b.dead() == {"c": "silent"}
        assert (c.status()["rejoin_count"], c.status()["is_member"]) == (1, True)
        assert "the node joins the system again" in site.log("c")


def test_an_excluded_node_ends_where_it_may_not_return(site: Site) -> None:
    with ExitStack() as ending:
        a, b, c = three(site, ending, peers='rejoin = "manual"')
        c.process.send_signal(signal.SIGSTOP)
        until(lambda: agree(a, b), "the stopped process is still alive for the others")
        c.process.send_signal(signal.SIGCONT)
        assert c.process.wait(PATIENCE_S) == 4
        assert "error: the system has excluded this node: " in site.log("c")


def test_a_sealed_system_refuses_strangers_and_counts_them(site: Site) -> None:
    def keys(name: str, byte: str) -> str:
        file = site.folder / name
        file.write_text(f'[[key]]\nid = 1\nsecret = "{byte * 32}"\n')
        file.chmod(0o600)
        return f'key_file = "{file}"'

    right, wrong = keys("right.toml", "5a"), keys("wrong.toml", "6b")
    with ExitStack() as ending:
        a = ending.enter_context(site.node("a", peers=right))
        b = ending.enter_context(site.node("b", peers=right))
        until(lambda: agree(a, b))
        ending.enter_context(site.node("clear"))
        ending.enter_context(site.node("other", peers=wrong))
        # Each of both strangers has formed a system of its own, so it had all time to join.
        until(lambda: min(_refused(one, reason) for one in (a, b) for reason in _REFUSALS) > 0)
        assert agree(a, b)


_REFUSALS: Final = ("plain", "forged")


def _refused(node: Node, reason: str) -> int:
    return int(node.status()["machine"]["seal"]["refused"][reason])


def test_two_systems_on_one_computer_do_not_mix(site: Site) -> None:
    with ExitStack() as ending:
        a = ending.enter_context(site.node("a"))
        x = ending.enter_context(site.node("x", system="quarry"))
        b = ending.enter_context(site.node("b"))
        y = ending.enter_context(site.node("y", system="quarry"))
        until(lambda: agree(a, b) and agree(x, y))
        assert a.picture.incarnation != x.picture.incarnation
        until(lambda: min(one.strangers() for one in (a, b, x, y)) > 0)
        assert agree(a, b)
        assert agree(x, y)


def test_a_node_alone_is_not_ready_until_it_has_formed_a_system(site: Site) -> None:
    with site.node("a", peers="", is_member=False) as a:
        code, text = a.page("/readyz")
        assert (code, text) in (
            (503, "the node has not joined the system yet\n"),
            (503, "the network interface of the system is awaited\n"),
        )
        until(lambda: a.page("/readyz")[0] == 200)
        assert agree(a)
