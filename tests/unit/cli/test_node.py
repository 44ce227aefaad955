"""`skerry node run` as a process: it listens, serves, and ends orderly."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from skerry.apps.node.config import NodeConfig
from skerry.cli.node import warn_of_readers
from skerry.engine.admission.admission import AdmissionConfig
from skerry.engine.admission.authentication import AuthenticationRule
from skerry.objects.internal import internal_class
from skerry.protocol.access.wire import OldWire, Wire
from skerry.runtime.storage.contract import StorageConfig
from skerry.runtime.streams.endpoints import parse_endpoint
from tests.unit.apps.node.test_peers import MISTAKES

Run = Callable[..., Any]


@contextmanager
def started(
    *arguments: str, descriptors: int | None = None, environ: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    def limit() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    program = subprocess.Popen(
        [sys.executable, "-m", "skerry", "node", "run", "--metrics", "off", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit,
        env={**os.environ, **(environ or {})},
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
def test_node_listens_at_the_given_endpoints_until_a_signal(
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
            # A disconnect message, which only clients after the handshake receive, and the end.
            while stream.recv(4096):
                pass
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


def test_invalid_endpoint_fails_with_a_hint(run: Run) -> None:
    done = run("node", "run", "--listen", "htp://127.0.0.1")
    assert (done.code, done.out) == (2, "")
    error, hint = done.err.splitlines()
    assert error.startswith("error: Invalid value for '--listen': there is no scheme 'htp'; there")
    assert hint.startswith("hint:  endpoints look like tcp://127.0.0.1:11235")


def test_port_in_use_exits_with_unreachable(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = run("node", "run", "--metrics", "off", "--listen", place)
    assert (done.code, done.out) == (3, "")
    assert done.err.startswith(f"error: cannot listen at {place}: ")
    assert "in use" in done.err


def test_first_socket_is_removed_if_the_second_endpoint_is_in_use(
    run: Run, clean_place: Path
) -> None:
    path = clean_place / "node.sock"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        done = run("node", "run", "--metrics", "off", "--listen", f"uds:{path}", "--listen", place)
    assert done.code == 3
    assert not os.path.lexists(path)


@pytest.mark.parametrize("text", MISTAKES, ids=lambda text: text.replace("\n", " "))
def test_fs_58_each_mistake_in_the_system_ends_the_start_with_one_message(
    run: Run, clean_place: Path, text: str
) -> None:
    file = clean_place / "node.toml"
    file.write_text(f"[node]\nsystem = 's'\n[node.peers]\n{text}")
    done = run("--config", file, "node", "run")
    assert (done.code, done.out) == (1, "")
    error, *hints = done.err.splitlines()
    assert error.startswith("error: node.peers")
    assert MISTAKES[text].replace("skerry.toml", str(file)) in error
    assert [line[:5] for line in hints] in ([], ["hint:"])


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("control = '10.255.255.*'", 1, "no address of this computer matches 10.255.255.*"),
        ("control = 'no-such0'", 1, "there is no network interface 'no-such0'"),
        ("control = '127.0.0.1:{port}'", 3, "cannot open the sockets at 127.0.0.1:{port}"),
        ("key_file = '/none/keys.toml'", 1, "node.peers.key_file (file /none/keys.toml): No such"),
        ("black_list = '/none/list'", 1, "No such file or directory"),
    ],
)
def test_fs_58_what_the_computer_does_not_have_ends_the_start_too(
    run: Run, clean_place: Path, text: str, code: int, message: str
) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        file = clean_place / "node.toml"
        file.write_text(
            f"""
            [node]
            system = "s"
            metrics = "off"
            listen = ["uds:{clean_place}/node.sock"]
            distributor.group = "none"
            [node.peers]
            seed_group = "none"
            interface_timeout_s = 0
            {text.format(port=port)}
            """
        )
        done = run("--config", file, "node", "run")
    assert (done.code, done.out) == (code, "")
    (error,) = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert message.format(port=port) in error
    assert not os.path.lexists(clean_place / "node.sock")


def test_flags_of_the_system_are_checked(run: Run) -> None:
    done = run("node", "run", "--system", "s", "--seed", "10.0.0.*")
    assert done.code == 2
    assert "Invalid value for '--seed'" in done.err
    done = run("node", "run", "--system", "s", "--node-type", "sever")
    assert "there is no type sever; the types are node, unicast" in done.err
    done = run("node", "run", "--seed", "10.0.0.1")
    assert "peers is configured without the name of a system; add system" in done.err


def test_help_shows_examples(run: Run) -> None:
    done = run("node", "run", "--help")
    assert done.code == 0
    assert "    skerry node run --listen tcp://127.0.0.1:4000 --listen uds:/" in done.out


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_node_out_of_descriptors_serves_connected_clients(loop: str, clean_place: Path) -> None:
    arguments = ("--listen", "tcp://127.0.0.1:0", "--log-form", "text")
    with started(*arguments, descriptors=64, environ={"SKERRY_NODE__LOOP": loop}) as program:
        (place,) = places_of(program, "skerry")
        endpoint = parse_endpoint(place)
        streams = [socket.create_connection((endpoint.host, endpoint.port), 10) for _ in range(100)]
        assert greeting(streams[0], Wire()) == "skerry"
        served = 0
        for stream in streams[1:]:
            stream.settimeout(10)
            try:
                served += bool(stream.recv(4096))
            except ConnectionResetError:
                continue
        assert 30 <= served <= 64
        for stream in streams:
            stream.close()
        # There is room again as soon as the node has noticed.
        while True:
            with socket.create_connection((endpoint.host, endpoint.port), 10) as stream:
                try:
                    if stream.recv(4096):
                        break
                except ConnectionResetError:
                    continue
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0
        assert program.stderr is not None
        messages = program.stderr.read()
        # Not a line for each rejected connection.
        assert 1 <= messages.count("connection rejected") <= 2


@pytest.mark.slow
def test_all_lines_are_json_where_that_is_wanted(clean_place: Path) -> None:
    place = f"uds:{clean_place}/node.sock"
    with started("--listen", place, "--log-form", "json") as program:
        assert program.stderr is not None
        first = json.loads(program.stderr.readline())
        assert first["message"] == f"node skerry listens at {place}"
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0
        rest = [json.loads(line) for line in program.stderr]
    assert rest[-1]["message"] == "node skerry ends"


@pytest.mark.slow
def test_configuration_is_read_from_a_file_and_flags_come_first(clean_place: Path) -> None:
    file = clean_place / "node.toml"
    path = clean_place / "a.sock"
    file.write_text(f'[node]\nname = "harbour"\nlisten = ["uds:{path}"]\n')
    with started("--config", str(file)) as program:
        assert places_of(program, "harbour") == [f"uds:{path}"]
    with started("--config", str(file), "--name", "pier") as program:
        assert places_of(program, "pier") == [f"uds:{path}"]


def test_tls_without_a_certificate_fails_with_a_hint(run: Run) -> None:
    done = run("node", "run", "--metrics", "off", "--listen", "tls://127.0.0.1:0")
    assert done.code == 1
    assert "TLS requires a certificate, and none is configured" in done.err
    assert "--tls-cert" in done.err


def test_invalid_metrics_address_is_rejected(run: Run) -> None:
    done = run("node", "run", "--metrics", "everywhere")
    assert done.code == 2
    assert "'--metrics': 'everywhere' is not HOST:PORT" in done.err


def test_storage_that_is_none_is_refused(run: Run, clean_place: Path) -> None:
    place = f"uds:{clean_place}/node.sock"
    done = run("node", "run", "--metrics", "off", "--listen", place, "--storage", "oracle:x")
    assert done.code == 2
    assert "'--storage': unknown kind of storage 'oracle'" in done.err
    assert not (clean_place / "node.sock").exists()


@pytest.mark.slow
@pytest.mark.parametrize("metrics", ["off", "127.0.0.1:0"])
def test_endpoints_are_printed_as_json_and_the_file_is_reloaded(
    metrics: str, tmp_path: Path
) -> None:
    file = tmp_path / "skerry.toml"
    file.write_text(f'[node]\nlisten = ["uds:{tmp_path}/n.sock"]\n', encoding="utf-8")
    line = [sys.executable, "-m", "skerry", "node", "run", "--json", "--config", str(file)]
    pipe = subprocess.PIPE
    options = ("--metrics", metrics, "--storage", "none")
    with subprocess.Popen([*line, *options], stdout=pipe, stderr=pipe, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stderr is not None
            messages = json.loads(program.stdout.readline())
            place = f"uds:{tmp_path}/n.sock"
            pages = messages.pop("metrics")
            assert messages == {"name": "skerry", "listen": [place]}
            if metrics == "off":
                assert pages == "off"
            else:
                host, _, port = pages.rpartition(":")
                with socket.create_connection((host, int(port)), 20):
                    pass
            file.write_text('[node]\nname = "x"\n', encoding="utf-8")
            program.send_signal(signal.SIGHUP)
            lines = (json.loads(line) for line in program.stderr)
            restart = next(row for row in lines if row["message"] == "these changes need a restart")
            assert restart["keys"] == "node.name, node.listen"
            program.send_signal(signal.SIGTERM)
            assert program.wait(20) == 0
        finally:
            program.kill()


@pytest.mark.parametrize(
    ("mode", "secret", "is_warned"),
    [(0o644, "sesame", True), (0o640, "sesame", False), (0o644, None, False)],
)
def test_secrets_that_everybody_can_read_are_warned_of(
    mode: int,
    secret: str | None,
    is_warned: bool,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file = tmp_path / "skerry.toml"
    file.touch(mode)
    file.chmod(mode)
    rule = AuthenticationRule(client="tracker", secret=secret)
    config = NodeConfig(admission=AdmissionConfig(authentication=(rule,)))
    warn_of_readers(file, config)
    warn_of_readers(None, config)
    words = "all users of this computer can read the secrets in the configuration"
    assert [record.getMessage() for record in caplog.records] == [words] * is_warned
    assert "sesame" not in str([vars(record) for record in caplog.records])


def test_password_of_a_storage_and_a_file_that_everybody_can_change_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "skerry.toml"
    file.touch()
    file.chmod(0o666)
    storage = StorageConfig(url="postgresql://ann:sesame@db/fleet")
    warn_of_readers(file, NodeConfig(storage=storage))
    words = ["read the secrets in the configuration", "change the configuration"]
    assert [record.getMessage() for record in caplog.records] == [
        f"all users of this computer can {each}" for each in words
    ]
    assert "sesame" not in repr(storage) + str([vars(record) for record in caplog.records])
