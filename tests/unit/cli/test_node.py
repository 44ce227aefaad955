"""`skerry node run` as a process: it listens, serves, and ends orderly."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skerry.objects.internal import internal_class
from skerry.protocol.access.wire import OldWire, Wire
from skerry.runtime.endpoints import parse_endpoint

Run = Callable[..., Any]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    program = subprocess.Popen(
        [sys.executable, "-m", "skerry", "node", "run", *arguments],
        stderr=subprocess.PIPE,
        text=True,
    )
    with program:
        try:
            yield program
        finally:
            program.kill()


def places_of(program: subprocess.Popen[str], name: str) -> list[str]:
    assert program.stderr is not None
    line = program.stderr.readline().rstrip("\n")
    words, _, places = line.partition(" listens at ")
    assert words == f"node {name}", line
    return places.split(", ")


def greeting(stream: socket.socket, wire: Wire) -> str:
    """The name by which a node greets."""
    stream.settimeout(10)
    while True:
        data = stream.recv(4096)
        assert data
        for header, payload in wire.feed(data):
            assert header.type_name == "DotsMsgHello"
            name = internal_class("DotsMsgHello").decode(payload).serverName
            assert isinstance(name, str)
            return name


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_node_serves_at_the_named_places_until_a_signal(
    number: signal.Signals, clean_place: Path
) -> None:
    path = clean_place / "node.sock"
    listen = ["tcp://127.0.0.1:0", "tcp-v1://127.0.0.1:0", f"uds:{path}"]
    arguments = [word for place in listen for word in ("--listen", place)]
    with started("--name", "harbour", *arguments) as program:
        places = places_of(program, "harbour")
        assert len(places) == 3
        assert places[2] == listen[2]
        streams = []
        for place in places:
            endpoint = parse_endpoint(place)
            family = socket.AF_UNIX if endpoint.path else socket.AF_INET
            stream = socket.socket(family, socket.SOCK_STREAM)
            streams.append(stream)
            stream.connect(endpoint.path or (endpoint.host, endpoint.port))
            wire = OldWire() if endpoint.version == 1 else Wire()
            assert greeting(stream, wire) == "harbour"
        program.send_signal(number)
        for stream in streams:
            assert stream.recv(1) == b""
            stream.close()
        assert program.wait(10) == 0
        assert program.stderr is not None
        assert program.stderr.read() == "node harbour ends\n"
    assert not path.exists()


@pytest.mark.slow
def test_sigint_ends_a_node_that_a_shell_started_in_the_background(clean_place: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with started("--listen", f"uds:{clean_place}/node.sock") as program:
            places_of(program, "skerry")
            program.send_signal(signal.SIGINT)
            assert program.wait(10) == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_place_that_is_none_fails_with_a_hint(run: Run) -> None:
    done = run("node", "run", "--listen", "htp://127.0.0.1")
    assert (done.code, done.out) == (1, "")
    error, hint = done.err.splitlines()
    assert error.startswith("error: htp://127.0.0.1 (endpoint): there is no scheme 'htp'")
    assert hint.startswith("hint:  endpoints look like tcp://127.0.0.1:11235")


def test_port_that_is_taken_is_an_unreachable_place(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = run("node", "run", "--listen", place)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"error: cannot listen at {place}: ")
    assert "in use" in done.err


def test_socket_of_the_first_place_is_removed_when_the_second_is_taken(
    run: Run, clean_place: Path
) -> None:
    path = clean_place / "node.sock"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = run("node", "run", "--listen", f"uds:{path}", "--listen", place)
    assert done.code == 3
    assert not os.path.lexists(path)


def test_help_shows_examples(run: Run) -> None:
    done = run("node", "run", "--help")
    assert done.code == 0
    assert "    skerry node run --listen tcp://127.0.0.1:4000 --listen uds:/" in done.out
