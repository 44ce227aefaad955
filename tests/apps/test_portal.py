"""The portal as a process: its options, kill -9, health and termination."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from skerry import portal
from skerry.protocol.portal.programs.program_messages import (
    HEALTH_REQUEST,
    HEALTH_RESPONSE,
    TERMINATE_REQUEST,
    TERMINATE_RESPONSE,
    HealthState,
    TerminateTarget,
    read_process_health,
    read_target,
    write_target,
)
from tests.runtime.portal.portal_sockets import PATIENCE_S, free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short path, as those of Unix sockets must be."""
    made = Path(tempfile.mkdtemp(prefix="skerry-portal-"))
    yield made
    shutil.rmtree(made)


@contextmanager
def running(folder: Path, *options: str, **variables: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A process of `skerry portal run`, and what it says when it listens."""
    environment = {
        **os.environ,
        "SKERRY_STATE_DIR": str(folder / "state"),
        "SKERRY_CONFIG": os.devnull,
        **variables,
    }
    command = [sys.executable, "-P", "-m", "skerry", "portal", "run", "--json", *options]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "log").read_text()
        yield process, json.loads(line)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
        if process.stdout is not None:
            process.stdout.close()


def until(is_true: Callable[[], bool], what: str) -> None:
    end = monotonic() + PATIENCE_S
    while not is_true():
        assert monotonic() < end, what
        sleep(0.01)


def test_ten_clients_are_back_after_the_portal_is_killed(folder: Path) -> None:
    port = free_port()
    options = ("--transport", "tcp", "--tcp-port", str(port))
    found: list[list[str]] = [[] for _ in range(10)]
    fields: dict[str, Any] = {"transport": "tcp", "tcp_port": port, "io_threads": 1}
    clients = [portal.open(f"client-{number}", **fields) for number in range(10)]
    try:
        with running(folder, *options) as (process, _):
            for client, received in zip(clients, found, strict=True):
                client.subscribe(lambda p, to=received: to.append(p.text()), "status")  # type: ignore[misc]
                client.ready()
            for client in clients:
                client.wait_open(PATIENCE_S)
                client.settle(PATIENCE_S)
            clients[0].settle(PATIENCE_S)
            clients[0].publish("status", "before")
            until(lambda: all(one == ["before"] for one in found), "all received it")
            process.kill()
            process.wait()
        until(lambda: not any(client.is_open for client in clients), "all have noticed it")
        for number, client in enumerate(clients):
            client.publish("status", f"of {number}")
        with running(folder, *options):
            until(lambda: all(client.is_open for client in clients), "all are back")
            until(lambda: all(len(one) == 11 for one in found), "all have all publications")
            for one in found:
                assert sorted(one[1:]) == [f"of {number}" for number in range(10)]
    finally:
        for client in clients:
            client.close()


def test_health_and_termination_by_goby_programs(folder: Path) -> None:
    name = str(folder / "p")
    with (
        running(folder, "--socket-name", name, "--metrics", "127.0.0.1:0") as (process, said),
        portal.open("tool", socket_name=name) as tool,
    ):
        answers: list[Any] = []
        for topic in (HEALTH_RESPONSE, TERMINATE_RESPONSE):
            tool.subscribe(answers.append, topic.group, portal.Scheme.PROTOBUF, topic.type_name)
        tool.ready()
        tool.wait_open(PATIENCE_S)
        tool.settle(PATIENCE_S)

        def ask(topic: Any, payload: bytes) -> bytes:
            tool.publish(topic.group, payload, scheme=1, type_name=topic.type_name)
            until(lambda: bool(answers), "an answer")
            answer: bytes = answers.pop().payload
            return answer

        health = read_process_health(ask(HEALTH_REQUEST, b""))
        assert (health.name, health.pid, health.state) == ("gobyd", process.pid, HealthState.OK)
        with urllib.request.urlopen(f"http://{said['metrics']}/metrics") as page:
            text = page.read().decode()
        assert "\nskerry_portal_publishers 2.0\n" in text
        assert "\nskerry_portal_is_held 0.0\n" in text
        with urllib.request.urlopen(f"http://{said['metrics']}/readyz") as page:
            assert page.read() == b"ready\n"
        with urllib.request.urlopen(f"http://{said['metrics']}/status.json") as page:
            names = [one["name"] for one in json.load(page)["known_clients"]]
        assert sorted(names) == ["gobyd", "tool"]
        answer = read_target(ask(TERMINATE_REQUEST, write_target(TerminateTarget(name="gobyd"))))
        assert answer == TerminateTarget(name="gobyd", pid=process.pid)
        assert process.wait(PATIENCE_S) == 0


def test_the_configuration_of_goby(folder: Path) -> None:
    cfg = folder / "gobyd.pb.cfg"
    cfg.write_text(
        f"""
        app {{ name: "mydaemon" glog_config {{ tty_verbosity: DEBUG1 }} }}
        router_threads: 3
        interprocess {{ platform: "auv" socket_name: "{folder}/from-cfg" transport: IPC }}
        hold {{ required_client: "pilot" required_client: "logger" }}
        intervehicle {{ link {{ modem_id: 3 }} }}
        """
    )
    with (
        running(folder, "--cfg", str(cfg), GOBY_INTERPROCESS="send_queue_size: 77") as (_, said),
        portal.open("pilot", socket_name=f"{folder}/from-cfg") as pilot,
    ):
        assert said["name"] == "mydaemon"
        assert said["manager"] == f"ipc://{folder}/from-cfg.manager"
        pilot.ready()
        pilot.publish("status", "kept")
        with portal.open("logger", socket_name=f"{folder}/from-cfg") as logger:
            found: list[str] = []
            logger.subscribe(lambda p: found.append(p.text()), "status")
            assert not pilot.is_open
            logger.ready()
            until(lambda: found == ["kept"], "the kept publication")
    assert "no field named" in (folder / "log").read_text()


def test_an_invalid_configuration_of_goby_is_a_clear_error(folder: Path) -> None:
    cfg = folder / "gobyd.pb.cfg"
    cfg.write_text("interprocess { transport: PIGEON }")
    command = [sys.executable, "-P", "-m", "skerry", "portal", "run", "--cfg", str(cfg)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1
    assert "PIGEON" in run.stderr
    assert str(cfg) in run.stderr


PROGRAM = """
import sys
from skerry import portal

class Pilot(portal.Application):
    loop_frequency_hz = 50

    def initialize(self):
        self.count = 0
        self.portal.subscribe(self.ordered, "orders")

    def ordered(self, publication):
        self.portal.publish("echo", publication.text())

    def loop(self):
        self.count += 1
        if self.count == 1:
            self.portal.publish("loops", "first")

    async def finalize(self):
        self.portal.publish("loops", "last")

    def health(self):
        return portal.HealthState.DEGRADED, "low battery"

sys.exit(Pilot.run())
"""


def test_an_application(folder: Path) -> None:
    name = str(folder / "p")
    program = folder / "pilot.py"
    program.write_text(PROGRAM)
    with (
        running(folder, "--socket-name", name, "--require", "Pilot", "--require", "tool"),
        portal.open("tool", socket_name=name) as tool,
    ):
        found: list[str] = []
        health: list[Any] = []
        for group in ("loops", "echo"):
            tool.subscribe(lambda p: found.append(p.text()), group)
        tool.subscribe(health.append, HEALTH_RESPONSE.group, 1, HEALTH_RESPONSE.type_name)
        tool.publish("orders", "ahead")
        tool.ready()
        process = subprocess.Popen(
            [sys.executable, "-P", str(program)],
            env={**os.environ, "GOBY_INTERPROCESS": f'socket_name: "{name}"'},
        )
        try:
            until(lambda: {"first", "ahead"} <= set(found), "the program answered")
            tool.publish(HEALTH_REQUEST.group, b"", scheme=1, type_name=HEALTH_REQUEST.type_name)
            until(lambda: len(health) == 2, "the portal and the program answered")
            states = {
                one.name: (one.state, one.error_message)
                for one in (read_process_health(p.payload) for p in health)
            }
            assert states["Pilot"] == (HealthState.DEGRADED, "low battery")
            target = write_target(TerminateTarget(pid=process.pid))
            tool.publish(
                TERMINATE_REQUEST.group, target, scheme=1, type_name=TERMINATE_REQUEST.type_name
            )
            assert process.wait(PATIENCE_S) == 0
            until(lambda: "last" in found, "the last words")
        finally:
            process.kill()
            process.wait()


def skerry(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "skerry", "portal", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def test_the_coroner_and_the_terminator(folder: Path) -> None:
    name = str(folder / "p")
    with running(folder, "--socket-name", name) as (process, _):
        options = ("--interval", "1", "--count", "1", "--json", "--socket-name", name)
        run = skerry("coroner", "--expect", "pilot", *options)
        found = {one["name"]: one for one in map(json.loads, run.stdout.splitlines())}
        assert found["gobyd"]["state"] == "ok"
        assert found["gobyd"]["pid"] == process.pid
        assert (found["pilot"]["state"], found["pilot"]["error"]) == ("failed", "process died")
        assert (
            "pilot failed process died"
            in skerry("coroner", "--expect", "pilot", *options[:4], *options[5:]).stdout
        )
        reaper = threading.Thread(target=process.wait)
        reaper.start()
        run = skerry("terminate", "gobyd", "--socket-name", name)
        reaper.join()
        assert run.stdout.splitlines() == [
            "gobyd: process responded",
            "gobyd: process cleanly quit",
        ]
        assert run.returncode == 0


def test_a_client_without_a_portal_is_an_error(folder: Path) -> None:
    run = skerry("terminate", "pilot", "--socket-name", str(folder / "none"))
    assert run.returncode == 3
    assert "cannot be used" in run.stderr
    run = skerry("terminate", "pilot", "--socket-name", "/" + "x" * 200)
    assert run.returncode == 2
    assert "limit of Unix sockets" in run.stderr
