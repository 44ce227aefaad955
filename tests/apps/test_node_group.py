"""Nodes of one system as processes: messages between their clients, by multicast on loopback."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import skerry

pytestmark = pytest.mark.slow

PATIENCE_S = 60
TYPES = """
enum Colour { 1: red, 2: green, }
struct Ping [cached=false] { 1: [key] string who; 2: uint32 number; 3: Colour colour; }
"""
LISTENER = """
import json, sys, threading
from skerry import distributor
from skerry.protocol.access.header import read_header

received = threading.Event()
count = 0

def on_update(subject, data, tag, queue_length):
    global count
    header, at = read_header(data, 0)
    print(json.dumps([subject, header.type_name, data[at:].hex()]), flush=True)
    count += header.type_name == "Ping"
    if count == int(sys.argv[2]):
        received.set()

with distributor.open(sys.argv[1], interface="127.0.0.1") as connection:
    connection.subscriber(on_update).add("/...")
    print("ready", flush=True)
    assert received.wait(50)
"""


class Site:
    """Folders and a group of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        foreign = ("SKERRY_", "DOTS_", "XDG_")
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        self.environ |= {
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
            "SKERRY_RUNTIME_DIR": str(folder / "run"),
            "SKERRY_STATE_DIR": str(folder / "state"),
        }
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("", 0))
            self.group = f"239.255.77.9:{probe.getsockname()[1]}"

    def place(self, name: str) -> str:
        return f"uds:{self.folder}/{name}.sock"

    @contextmanager
    def started(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ,
            cwd=self.folder,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def node(self, name: str) -> Iterator[subprocess.Popen[str]]:
        config = self.folder / f"{name}.toml"
        config.write_text(
            f"""
            [node]
            name = "{name}"
            listen = ["{self.place(name)}"]
            metrics = "off"
            storage.url = "none"
            [node.distributor]
            group = "{self.group}"
            interface = "127.0.0.1"
            """
        )
        with self.started("-m", "skerry", "--config", str(config), "node", "run") as process:
            assert process.stderr is not None
            notified = ""
            for line in process.stderr:
                notified += line
                if "listens at" in line:
                    break
            assert f"exchanges messages by {self.group} on lo" in notified
            yield process

    @contextmanager
    def listener(self, count: int) -> Iterator[subprocess.Popen[str]]:
        """A program that uses the group alone."""
        with self.started("-c", LISTENER, self.group, str(count)) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_messages_reach_clients_of_the_other_node_and_members_without_a_node(site: Site) -> None:
    types = skerry.define_types(TYPES)
    ping, colours = types.Ping, types.Colour
    with (
        site.listener(count=4) as listener,
        site.node("a"),
        site.node("b"),
        skerry.connect(site.place("a"), name="p") as first,
        skerry.connect(site.place("b"), name="q") as second,
    ):
        at_first, at_second = first.subscribe(ping), second.subscribe(ping)
        first.flush()
        second.flush()
        messages = [ping(who="p", number=n, colour=colours.green) for n in range(3)]
        for message in messages:
            first.publish(message)
        assert [next(at_second).object for _ in messages] == messages
        answer = ping(who="q", number=9)
        second.publish(answer)
        assert next(at_second).object == answer
        assert [next(at_first).object for _ in range(4)] == [*messages, answer]
        out, err = listener.communicate(timeout=PATIENCE_S)
        assert listener.returncode == 0, err
        rows = [json.loads(line) for line in out.splitlines()]
        pings = [(subject, payload) for subject, name, payload in rows if name == "Ping"]
        expected = [("/Ping/p", message.encode().hex()) for message in messages]
        assert pings == [*expected, ("/Ping/q", answer.encode().hex())]
        described = [subject for subject, name, _ in rows if name != "Ping"]
        assert described[:2] == ["/EnumDescriptorData/Colour", "/StructDescriptorData/Ping"]


def test_a_node_that_ends_leaves_the_group(site: Site) -> None:
    with site.node("a") as staying, site.node("b") as leaving:
        with skerry.connect(site.place("b"), name="p") as space:
            space.publish(skerry.define_types(TYPES).Ping(who="p", number=1))
            space.flush()
        leaving.terminate()
        assert leaving.wait(PATIENCE_S) == 0
        assert staying.stderr is not None
        for line in staying.stderr:
            if "a sender of the group was removed" in line:
                assert "goodbye" in line
                break
        else:
            pytest.fail("the node that stays did not notice")
