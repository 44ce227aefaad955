"""Two nodes of a system, what the doctor finds, and what it finds when large datagrams are dropped.

Runs in a network namespace: `python doctor_scenario.py FOLDER NFT` prints a line of JSON for each
check.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import skerry
from skerry.apps.doctor.system_checks import examine_system
from tests.apps.test_system import Node, Site, agree, until


def show(phase: str, node: Node) -> None:
    # A connection of its own, as the command has.
    with skerry.connect(node.place, name="doctor") as space:
        for result in examine_system(space):
            print(json.dumps({"phase": phase, **asdict(result)}))


def drop(nft: str, *expression: str) -> None:
    """Drop datagrams of the namespace that match."""
    for words in (
        ("add", "table", "inet", "test"),
        ("add", "chain", "inet", "test", "out", "{ type filter hook output priority 0; }"),
        ("add", "rule", "inet", "test", "out", *expression, "drop"),
    ):
        subprocess.run([nft, *words], check=True, timeout=20)


def main(folder: Path, nft: str) -> None:
    site = Site(folder)
    with ExitStack() as ending:
        a, b = (ending.enter_context(site.node(name)) for name in "ab")
        until(lambda: agree(a, b), "the nodes have different pictures")
        show("fine", a)
        drop(nft, "udp", "length", "gt", "1300")
        show("divided", a)
        b.process.kill()
        until(lambda: a.dead() == {"b": "silent"}, "the killed node is still alive")
        show("killed", a)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
