"""The guide for browsers: its messages are exchanged with a node, in their order."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import ClientConnection, connect

import skerry
from skerry.schema.internal import internal_types

STEP = re.compile(
    r"^<!-- (?P<mark>sent|received|done: .+?) -->\n(?:\n?```json\n(?P<text>.+?)\n```$)?",
    re.MULTILINE | re.DOTALL,
)
TYPES = """
struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; 4: float64 lon; }
"""

pytestmark = pytest.mark.slow


@pytest.fixture
def node(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The endpoints of a node: a Unix socket and a WebSocket."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        web = f"ws://127.0.0.1:{free.getsockname()[1]}"
    place = f"uds:{tmp_path}/node.sock"
    command = [sys.executable, "-m", "skerry", "node", "run", "--metrics", "off"]
    env = {**os.environ, "SKERRY_STATE_DIR": str(tmp_path)}
    with subprocess.Popen(
        [*command, "--listen", place, "--listen", web], env=env, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            assert running.stderr is not None
            assert "listens at" in running.stderr.readline()
            yield place, web
        finally:
            running.terminate()


def test_the_messages_of_the_guide_are_those_of_a_node(root: Path, node: tuple[str, str]) -> None:
    page = (root / "docs/guides/browser.md").read_text(encoding="utf-8")
    place, web = node
    steps = [(match["mark"], match["text"]) for match in STEP.finditer(page)]
    assert len(steps) > 15
    with skerry.connect(place, types=skerry.define_types(TYPES)) as space:
        space.publish(space.types["Vessel"](mmsi=244660000, name="Maren", lat=52.1))
        space.flush()
        with connect(web, subprotocols=["dots-json"]) as client:  # type: ignore[list-item]
            for mark, text in steps:
                if mark == "sent":
                    client.send(text)
                elif mark == "received":
                    receive(client, json.loads(text))
                else:
                    run(mark.removeprefix("done: "), place)


def receive(client: ClientConnection, expected: list[Any]) -> None:
    """Receive messages up to the one that the guide shows; the header may have more fields."""
    seen: list[Any] = []
    while True:
        header, found = json.loads(client.recv(timeout=20))
        seen.append((header, found))
        if found == expected[1] and expected[0].items() <= header.items():
            return
        assert len(seen) < 20, (expected, seen)


def run(command: str, place: str) -> None:
    words = [sys.executable, "-m", *shlex.split(command), "--node", place]
    subprocess.run(words, check=True, timeout=60)


def test_the_fields_of_internal_types_exist_with_these_tags(root: Path) -> None:
    page = (root / "docs/guides/browser.md").read_text(encoding="utf-8")
    tags = {
        name: {field.name: field.tag for field in getattr(type_, "fields", ())}
        for name, type_ in internal_types().items()
    }
    rows = re.findall(r"^\| `(\w+)`(?:, `(\w+)`)? \| (\d+)(?:, (\d+))? \|", page, re.MULTILINE)
    assert len(rows) > 10
    all_tags = {(field, tag) for fields in tags.values() for field, tag in fields.items()}
    for first, second, tag, other in rows:
        assert (first, int(tag)) in all_tags
        assert not second or (second, int(other)) in all_tags
    header = page[page.index("Fields of the header") : page.index("In JavaScript")]
    assert set(re.findall(r"^\| `(\w+)` \|", header, re.MULTILINE)) <= set(tags["DotsHeader"])
