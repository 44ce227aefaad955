"""Real processes in a multicast group with loss: every datagram is repaired."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.namespaces import in_namespace, require_nft

SCENARIO = Path(__file__).with_name("multicast_scenario.py")
COUNT = 100_000
NFT = """
table inet loss {
    chain incoming {
        type filter hook input priority 0;
        udp dport 4711 numgen random mod 100 < 5 drop
    }
}
"""


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def outcome(*words: str, before: list[str] | None = None) -> dict[str, Any]:
    line = [*(before or []), sys.executable, str(SCENARIO), *words]
    done = subprocess.run(line, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any], *, subscribers: int, count: int) -> None:
    assert len(found["subscribers"]) == subscribers
    for result in found["subscribers"]:
        assert result["count"] == count, result
        assert result["wrong"] == []
        assert result["losses"] == []


@pytest.mark.slow
def test_five_percent_loss_is_repaired_for_four_subscribers() -> None:
    found = outcome(
        *("--group", f"239.255.77.5:{free_port()}", "--count", str(COUNT)),
        *("--subscribers", "4", "--loss", "0.05", "--no-trains"),
    )
    check(found, subscribers=4, count=COUNT)
    assert found["publisher"]["resent"] > 0
    assert sum(result["requests"] for result in found["subscribers"]) > 0


@pytest.mark.slow
def test_lost_trains_are_repaired() -> None:
    found = outcome(
        *("--group", f"239.255.77.5:{free_port()}", "--count", "30000"),
        *("--subscribers", "2", "--loss", "0.05"),
    )
    check(found, subscribers=2, count=30_000)


@pytest.mark.slow
def test_loss_by_nftables_is_repaired(tmp_path: Path) -> None:
    nft = require_nft()
    rules = tmp_path / "rules"
    rules.write_text(NFT)
    before = in_namespace(f"{nft} -f {shlex.quote(str(rules))}")
    # The filter drops whole trains, and so few of them are sent that it may happen to drop none.
    words = ("--count", str(COUNT), "--subscribers", "4", "--no-trains")
    found = outcome("--group", "239.255.77.5:4711", *words, before=before)
    check(found, subscribers=4, count=COUNT)
    assert found["publisher"]["resent"] > 0


@pytest.mark.slow
def test_groups_of_version_6_work_on_an_interface_with_a_small_mtu() -> None:
    # The loopback interface carries no such groups, so there has to be another one.
    before = in_namespace(
        "ip link add v0 type veth peer name v1 && ip address add fd00::1/64 dev v0 nodad"
        " && ip link set v1 up && ip link set v0 up"
    )
    words = ("--group", "[ff15::7:1]:4711", "--interface", "v0", "--count", "5000")
    found = outcome(*words, "--subscribers", "2", before=before)
    check(found, subscribers=2, count=5000)
    for result in found["subscribers"]:
        (address,) = result["senders"]
        assert address.startswith("fd00::1")
    # What fits an MTU of 1500: in datagrams of 7800 bytes they would be about 20.
    assert found["publisher"]["datagrams"] > 60


@pytest.mark.slow
def test_lines_that_are_published_where_a_tenth_is_lost_all_arrive(tmp_path: Path) -> None:
    nft = require_nft()
    rules = tmp_path / "rules"
    rules.write_text(NFT.replace("< 5 drop", "< 10 drop"))
    before = in_namespace(f"{nft} -f {shlex.quote(str(rules))}")
    command = [sys.executable, "-m", "skerry", "distributor"]
    where = ("239.255.77.5:4711", "--interface", "127.0.0.1")
    program = tmp_path / "both.py"
    program.write_text(
        "import subprocess, sys\n"
        f"sub = subprocess.Popen({[*command, 'sub', *where, '--json', '--count', '5000']!r},\n"
        "    stdout=subprocess.PIPE, text=True)\n"
        "lines = ''.join(f'{n}\\n' for n in range(5000))\n"
        f"pub = {[*command, 'pub', *where, '--subject', '/a']!r}\n"
        # The subscriber has joined when it hears of a sender that comes and goes.
        f"hello = {[*command, 'pub', *where, '--subject', '/b', '--data', 'x']!r}\n"
        "import threading\n"
        "seen = threading.Event()\n"
        "found = []\n"
        "def read():\n"
        "    for line in sub.stdout:\n"
        "        found.append(line)\n"
        "        seen.set()\n"
        "reader = threading.Thread(target=read)\n"
        "reader.start()\n"
        "while not seen.is_set():\n"
        "    subprocess.run(hello, check=True)\n"
        "subprocess.run(pub, input=lines, text=True, check=True)\n"
        "sub.terminate()\n"
        "reader.join()\n"
        "sys.stdout.write(''.join(found))\n"
    )
    done = subprocess.run(
        [*before, sys.executable, str(program)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    numbers = [int(row["data"]) for row in rows if row.get("subject") == "/a"]
    # Those that greeted count as well, and end the subscriber so much earlier.
    assert numbers == list(range(len(numbers)))
    assert len(numbers) + sum(row.get("subject") == "/b" for row in rows) == 5000
    assert not [row for row in rows if row.get("_event") == "UpdatesLost"]
