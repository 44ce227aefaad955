"""The commands against a node, all as processes: pipes, signals, storage and TLS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

TYPES = """\
struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; }
struct Voyage [persistent] { 1: [key] uint32 mmsi; 2: string to; }
"""

pytestmark = pytest.mark.slow


class Shell:
    """Runs commands in a folder, without the node of the user."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "fleet.dots").write_text(TYPES)
        foreign = ("SKERRY_", "DOTS_", "XDG_")
        self.environ = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        self.environ |= {
            "HOME": str(folder),
            "PYTHONUNBUFFERED": "1",
            "SKERRY_RUNTIME_DIR": str(folder / "run"),
            "SKERRY_STATE_DIR": str(folder / "state"),
        }
        if "SKERRY_TEST_MODE" in os.environ:
            self.environ["SKERRY_TEST_MODE"] = os.environ["SKERRY_TEST_MODE"]

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "skerry", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environ,
            cwd=self.folder,
        )

    def run(self, *arguments: str, feed: str = "", code: int = 0) -> str:
        with self.started(*arguments) as process:
            try:
                out, err = process.communicate(feed, timeout=60)
            finally:
                process.kill()
        assert process.returncode == code, out + err
        return out

    @contextmanager
    def node(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """A node, by default at a Unix socket where commands find it."""
        (self.folder / "run").mkdir(mode=0o700, exist_ok=True)
        listen = arguments or ("--listen", f"uds:{self.folder}/run/node.sock")
        with self.started("node", "run", "--metrics", "off", *listen) as process:
            try:
                assert process.stderr is not None
                for line in process.stderr:
                    if "listens at" in line:
                        self.place = line.rpartition(" ")[2].strip()
                        break
                yield process
            finally:
                process.kill()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_published_objects_are_printed_until_a_signal(shell: Shell) -> None:
    with shell.node(), shell.started("sub", "Vessel", "--json") as follower:
        try:
            assert follower.stdout is not None
            assert follower.stderr is not None
            assert "does not know Vessel yet" in follower.stderr.readline()
            shell.run("pub", "Vessel", "mmsi=1", "name=Maren", "--types", "fleet.dots")
            assert json.loads(follower.stdout.readline())["name"] == "Maren"
            shell.run("pub", "Vessel", "mmsi=1", "--remove")
            assert json.loads(follower.stdout.readline())["_operation"] == "remove"
            follower.send_signal(signal.SIGINT)
            assert follower.wait(30) == 0
        finally:
            follower.kill()


def test_output_of_sub_can_be_piped_to_pub(shell: Shell) -> None:
    with shell.node():
        shell.run("pub", "Vessel", "--types", "fleet.dots", feed='{"mmsi": 1}\n{"mmsi": 2}\n')
        followed = shell.run("sub", "Vessel", "--json", "--count", "2")
        shell.run("pub", "Vessel", "mmsi=1", "--remove")
        shell.run("pub", "Vessel", feed=followed)
        rows = [json.loads(line) for line in shell.run("get", "Vessel", "--json").splitlines()]
        assert [row["_key"] for row in rows] == [1, 2]


def test_pub_that_waits_for_lines_ends_orderly_on_a_signal(shell: Shell) -> None:
    with (
        shell.node(),
        shell.started("sub", "Vessel", "--types", "fleet.dots") as follower,
        shell.started("pub", "Vessel", "--types", "fleet.dots") as publisher,
    ):
        try:
            assert publisher.stdin is not None
            assert follower.stdout is not None
            publisher.stdin.write('{"mmsi": 7}\n')
            publisher.stdin.flush()
            assert "mmsi = 7u" in follower.stdout.readline()
            publisher.send_signal(signal.SIGTERM)
            assert publisher.wait(30) == 0
        finally:
            publisher.kill()
            follower.kill()


def test_confirmed_objects_survive_kill_minus_nine(shell: Shell) -> None:
    with shell.node() as node:
        shell.run("pub", "Voyage", "mmsi=1", "to=Skagen", "--types", "fleet.dots")
        node.kill()
        node.wait()
    with shell.node():
        assert json.loads(shell.run("get", "Voyage", "--json"))["to"] == "Skagen"
        (row,) = map(json.loads, shell.run("types", "list", "--quick", "--json").splitlines())
        assert (row["name"], row["flags"]) == ("Voyage", ["persistent"])


def test_reader_that_has_seen_enough_ends_sub(shell: Shell) -> None:
    with shell.node():
        lines = "".join(f'{{"mmsi": {number}}}\n' for number in range(2000))
        shell.run("pub", "Vessel", "--types", "fleet.dots", feed=lines)
        with shell.started("sub", "Vessel") as follower:
            try:
                assert follower.stdout is not None
                assert follower.stderr is not None
                follower.stdout.readline()
                follower.stdout.close()
                assert follower.wait(30) == 1
                assert follower.stderr.read() == ""
            finally:
                follower.kill()


def test_commands_come_in_by_tls_with_a_certificate(shell: Shell) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(shell.folder / "ca.pem")
    for name, arguments in {"node": "127.0.0.1", "client": "pilot.example"}.items():
        issued = authority.issue_cert(arguments, common_name=arguments)
        issued.private_key_and_cert_chain_pem.write_to_path(shell.folder / f"{name}.pem")
    tls = ("--tls-cert", "node.pem", "--tls-ca", "ca.pem")
    with shell.node("--listen", "tls://127.0.0.1:0", *tls):
        there = ("--node", shell.place, "--ca", "ca.pem")
        known = (*there, "--cert", "client.pem")
        shell.run("pub", "Vessel", "mmsi=1", "--types", "fleet.dots", *known)
        assert json.loads(shell.run("get", "Vessel", "--json", *known))["mmsi"] == 1
        shell.run("get", "Vessel", *there, code=3)


def test_secret_opens_a_node_that_asks_for_one(shell: Shell) -> None:
    (shell.folder / "skerry.toml").write_text(
        '[node.admission]\npolicy = "reject"\n'
        '[[node.admission.authentication]]\nsecret = "open sesame"\n'
        '[[node.admission.permission]]\nverbs = ["all"]\n'
    )
    with shell.node("--listen", "tcp://127.0.0.1:0"):
        there = ("pub", "Vessel", "mmsi=1", "--types", "fleet.dots", "--node", shell.place)
        shell.run(*there, code=3)
        shell.run(*there, "--secret", "wrong", code=3)
        shell.run(*there, "--secret", "open sesame")


def test_refused_subscription_ends_with_the_reason(shell: Shell) -> None:
    (shell.folder / "skerry.toml").write_text(
        '[[node.admission.permission]]\nverbs = ["publish"]\nsubjects = ["Vessel"]\n'
    )
    with shell.node("--listen", "tcp://127.0.0.1:0"):
        there = ("--node", shell.place)
        shell.run("pub", "Vessel", "mmsi=1", "--types", "fleet.dots", *there)
        shell.run("sub", "Vessel", "--types", "fleet.dots", *there, code=1)
        shell.run("sub", "/Vessel/*", *there, code=1)
