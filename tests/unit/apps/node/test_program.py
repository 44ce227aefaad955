"""The node as a program: endpoints, messages, storage, reload and end."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import skerry
from skerry.apps.node import program as node
from skerry.apps.node.config import NodeConfig
from skerry.apps.node.distributor_carriage import NodeDistributorConfig
from skerry.apps.node.peers import NodePeersConfig
from skerry.apps.node.program import DEFAULT_ENDPOINTS, default_endpoints, run_node
from skerry.engine.admission.admission import AdmissionConfig
from skerry.engine.admission.permissions import PermissionRule
from skerry.engine.dispatch.cache import Cache
from skerry.errors import ConfigError, ConnectFailed
from skerry.runtime import machine_driver
from skerry.runtime.clock import wall_ns
from skerry.runtime.loops import LoopKind, run_loop
from skerry.runtime.storage.contract import StorageConfig
from skerry.runtime.streams.endpoints import parse_endpoint

PATIENCE_S = 10.0
"""Timeout of waits; much longer than any test needs."""


def messages_of_node(
    folder: Path,
    *listen: str,
    loop: LoopKind = "asyncio",
    visit: Callable[[], object] | None = None,
    dots_endpoint: str = "",
    run: dict[str, Any] | None = None,
    **options: Any,
) -> list[str]:
    """Messages of a node that is stopped as soon as it listens, or after a visit."""
    reported: list[str] = []
    environ = {
        "DOTS_ENDPOINT": dots_endpoint,
        "SKERRY_RUNTIME_DIR": str(folder / "run"),
        "SKERRY_STATE_DIR": str(folder / "state"),
    }

    def emit(text: str) -> None:
        reported.append(text)
        if "listens at" in text:
            asyncio.get_running_loop().create_task(end())

    async def end() -> None:
        try:
            if visit is not None:
                await asyncio.wait_for(asyncio.to_thread(visit), PATIENCE_S)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    config = NodeConfig(**{"name": "harbour", "listen": listen, "metrics": "off", **options})
    run_loop(run_node(config, report=emit, environ=environ, **run or {}), loop)
    return reported


def port_of(taken: socket.socket) -> int:
    port = taken.getsockname()[1]
    assert isinstance(port, int)
    return port


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return port_of(found)


def page(port: int, path: str) -> tuple[str, str]:
    """Status line and body."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as stream:
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = b""
        while data := stream.recv(65536):
            answer += data
    head, _, body = answer.decode().partition("\r\n\r\n")
    return head.splitlines()[0], body


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_node_reports_its_endpoints_and_its_end(loop: LoopKind, tmp_path: Path) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    place = f"uds:{tmp_path}/node.sock"
    assert messages_of_node(tmp_path, place, loop=loop) == [
        f"node harbour listens at {place}",
        "node harbour ends",
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_signal_handlers_are_restored_when_the_node_ends(loop: LoopKind, tmp_path: Path) -> None:
    if loop == "uvloop":
        pytest.importorskip("uvloop")
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    messages_of_node(tmp_path, f"uds:{tmp_path}/node.sock", loop=loop)
    assert [signal.getsignal(number) for number in numbers] == before


def test_default_endpoints_are_local_and_for_both_framings(tmp_path: Path) -> None:
    places = default_endpoints({"SKERRY_RUNTIME_DIR": f"{tmp_path}/my run"})
    assert places[0].path == f"{tmp_path}/my run/node.sock"
    assert [(place.host, place.port, place.version) for place in places[1:]] == [
        ("127.0.0.1", 11235, 2),
        ("127.0.0.1", 11234, 1),
    ]
    assert [place.text for place in places[1:]] == list(DEFAULT_ENDPOINTS)


def test_dots_endpoint_gives_endpoints(tmp_path: Path) -> None:
    places = [f"uds:{tmp_path}/a.sock", f"uds-v1:{tmp_path}/b.sock"]
    reported = messages_of_node(tmp_path, dots_endpoint="  ".join(places))
    assert reported[0] == f"node harbour listens at {', '.join(places)}"


def test_configured_endpoints_replace_dots_endpoint(tmp_path: Path) -> None:
    reported = messages_of_node(tmp_path, f"uds:{tmp_path}/a.sock", dots_endpoint="no place at all")
    assert reported[0] == f"node harbour listens at uds:{tmp_path}/a.sock"


def test_default_endpoint_in_use_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = (f"tcp://127.0.0.1:{port_of(taken)}", "tcp-v1://127.0.0.1:0")
        monkeypatch.setattr(node, "DEFAULT_ENDPOINTS", usual)
        passed, listens, ends = messages_of_node(tmp_path)
    assert passed.startswith(f"cannot listen at {usual[0]}: ")
    assert passed.endswith("; skipped")
    start = f"node harbour listens at uds:{tmp_path}/run/node.sock, tcp-v1://127.0.0.1:"
    assert listens.startswith(start)
    assert ends == "node harbour ends"
    assert list((tmp_path / "run").iterdir()) == []


def test_unusable_runtime_folder_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "DEFAULT_ENDPOINTS", ("tcp://127.0.0.1:0",))
    (tmp_path / "run").write_text("precious")
    passed, listens, _ = messages_of_node(tmp_path)
    assert "File exists" in passed
    assert listens.startswith("node harbour listens at tcp://")


def test_node_without_any_endpoint_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run").write_text("precious")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = (f"tcp://127.0.0.1:{port_of(taken)}",)
        monkeypatch.setattr(node, "DEFAULT_ENDPOINTS", usual)
        with pytest.raises(ConnectFailed, match="all default endpoints are in use"):
            messages_of_node(tmp_path)


def test_configured_endpoint_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"tcp://127.0.0.1:{port_of(taken)}"
        with pytest.raises(ConnectFailed, match=f"cannot listen at {place}"):
            messages_of_node(tmp_path, f"uds:{tmp_path}/node.sock", place)
    assert list(tmp_path.iterdir()) == []


def test_pages_are_served_while_the_node_runs(tmp_path: Path) -> None:
    port = free_port()
    seen: dict[str, tuple[str, str]] = {}

    def visit() -> None:
        for path in ("/healthz", "/readyz", "/status.json", "/metrics"):
            seen[path] = page(port, path)

    messages_of_node(tmp_path, f"uds:{tmp_path}/a.sock", visit=visit, metrics=f"127.0.0.1:{port}")
    assert {status for status, _ in seen.values()} == {"HTTP/1.1 200 OK"}
    assert seen["/healthz"][1] == "ok\n"
    assert seen["/readyz"][1] == "ready\n"
    assert json.loads(seen["/status.json"][1])["client_count"] == 0
    assert "\nskerry_ledger_unexplained 0.0\n" in seen["/metrics"][1]


def test_configured_metrics_address_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{port_of(taken)}"
        with pytest.raises(ConnectFailed, match=f"cannot serve metrics at {place}"):
            messages_of_node(tmp_path, f"uds:{tmp_path}/a.sock", metrics=place)


def test_default_metrics_address_in_use_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{port_of(taken)}"
        monkeypatch.setattr(node, "METRICS_ADDRESS", place)
        ready: list[object] = []
        run = {"ready": lambda _places, pages: ready.append(pages)}
        reported = messages_of_node(tmp_path, f"uds:{tmp_path}/a.sock", metrics=place, run=run)
    assert reported[0].endswith("; skipped")
    assert len(reported) == 3
    # The pages at that address belong to another program.
    assert ready == [None]


def test_chosen_port_of_the_pages_is_reported(tmp_path: Path) -> None:
    ready: list[str] = []
    seen: list[str] = []

    def visit() -> None:
        host, _, port = ready[0].rpartition(":")
        assert host == "127.0.0.1"
        seen.append(page(int(port), "/healthz")[0])

    run = {"ready": lambda _places, pages: ready.append(pages)}
    messages_of_node(
        tmp_path, f"uds:{tmp_path}/a.sock", visit=visit, run=run, metrics="127.0.0.1:0"
    )
    assert seen == ["HTTP/1.1 200 OK"]


def test_node_without_persistent_objects_leaves_nothing_behind(tmp_path: Path) -> None:
    messages_of_node(tmp_path, f"uds:{tmp_path}/node.sock")
    assert list(tmp_path.iterdir()) == []


def test_named_storage_is_opened_at_the_start(tmp_path: Path) -> None:
    storage = StorageConfig(url=f"sqlite:{tmp_path}/mine.db")
    messages_of_node(tmp_path, f"uds:{tmp_path}/node.sock", storage=storage)
    assert (tmp_path / "mine.db").exists()


def test_sighup_reloads_certificates_and_does_not_end_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def visit() -> None:
        os.kill(os.getpid(), signal.SIGHUP)

    with caplog.at_level(logging.INFO, "skerry"):
        reported = messages_of_node(tmp_path, f"uds:{tmp_path}/node.sock", visit=visit)
    assert reported[-1] == "node harbour ends"
    assert "certificates reloaded" in [record.getMessage() for record in caplog.records]


def test_sighup_reloads_permissions_and_names_keys_that_need_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = f"uds:{tmp_path}/node.sock"
    rule = PermissionRule(verbs=("publish",))
    other = NodeConfig(name="other", listen=(place,), admission=AdmissionConfig(permission=(rule,)))
    ready: list[tuple[list[str], str | None]] = []

    def visit() -> None:
        with skerry.connect(place) as space:
            space.subscribe("/a").close()
            os.kill(os.getpid(), signal.SIGHUP)
            with pytest.raises(skerry.Refused):
                space.container("DotsClient")

    with caplog.at_level(logging.INFO, "skerry"):
        options = {"reread": lambda: other, "ready": lambda *where: ready.append(where)}
        messages_of_node(tmp_path, place, visit=visit, run=options)
    arguments = [record.getMessage() for record in caplog.records]
    assert "admission reloaded" in arguments
    (record,) = [r for r in caplog.records if r.getMessage() == "these changes need a restart"]
    assert vars(record)["keys"] == "node.name, node.metrics"
    assert ready == [([place], None)]


def test_a_configuration_that_went_bad_leaves_the_one_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def reread() -> NodeConfig:
        raise ConfigError(key="node.name", origin="skerry.toml", detail="bad")

    def visit() -> None:
        os.kill(os.getpid(), signal.SIGHUP)

    place = f"uds:{tmp_path}/node.sock"
    messages_of_node(tmp_path, place, visit=visit, run={"reread": reread})
    (record,) = [r for r in caplog.records if r.getMessage() == "admission not reloaded"]
    assert "bad" in vars(record)["reason"]


def running(**parts: Any) -> Any:
    usual: dict[str, Any] = {
        "server": None,
        "carrier": None,
        "member": None,
        "endpoints": [],
        "pages": None,
    }
    return node._Running(**{**usual, **parts})


def reloader() -> Any:
    server: Any = None
    return node._Reloader(NodeConfig(), server, None)


def test_certificates_that_went_bad_leave_those_in_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Listeners:
        def reload_certificates(self) -> None:
            raise ConfigError(key="node.tls.cert", origin="node.pem", detail="gone")

    node._reload(running(server=SimpleNamespace(listeners=Listeners())), reloader())
    (record,) = caplog.records
    assert record.getMessage() == "certificates not reloaded"
    assert "gone" in vars(record)["reason"]


def test_keys_of_the_group_that_went_bad_leave_those_in_use(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Listeners:
        def reload_certificates(self) -> None:
            return None

    class Carrier:
        def reload_keys(self) -> None:
            raise ConfigError(key="distributor.key_file", origin="keys.toml", detail="gone")

    node._reload(
        running(server=SimpleNamespace(listeners=Listeners()), carrier=Carrier()), reloader()
    )
    (record,) = [found for found in caplog.records if found.levelname == "WARNING"]
    assert record.getMessage() == "keys of the group not reloaded"
    assert "gone" in vars(record)["reason"]


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_node_of_a_system_reports_its_group(tmp_path: Path, loop: LoopKind) -> None:
    options = NodeDistributorConfig(interface="127.0.0.1", request_timeout_ms=10)
    place = f"uds:{tmp_path}/node.sock"
    reported = messages_of_node(tmp_path, place, loop=loop, system="harbour", distributor=options)
    assert reported[0] == "node harbour exchanges messages by 239.193.104.190:4711 on lo"
    assert reported[-1] == "node harbour ends"


@pytest.mark.parametrize(
    ("peers", "distributor", "interface"),
    [
        ({"control": "127.0.0.1"}, {}, "127.0.0.1"),
        ({"control": "127.0.*:5000"}, {}, "127.0.0.1"),
        ({"control": "127.0.0.1"}, {"interface": "eth7"}, "eth7"),
        ({"control": "[::1]"}, {}, "lo"),
        ({"control": "no-such0"}, {}, ""),
        ({}, {}, ""),
    ],
)
def test_messages_use_the_interface_of_the_system(
    peers: dict[str, str], distributor: dict[str, str], interface: str
) -> None:
    config = NodeConfig(
        system="harbour",
        peers=NodePeersConfig(**peers),  # type: ignore[arg-type]
        distributor=NodeDistributorConfig(**distributor),  # type: ignore[arg-type]
    )
    assert node.message_interface(config) == interface


def test_exceptions_of_the_loop_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    loop: Any = None
    node._log_exception(loop, {"message": "accept failed", "exception": OSError(24, "Too many")})
    node._log_exception(loop, {"message": "broken", "exception": ZeroDivisionError()})
    first, second = caplog.records
    assert (first.levelname, first.getMessage()) == ("WARNING", "accept failed")
    assert vars(first)["reason"] == "Too many"
    assert (second.levelname, second.getMessage()) == ("ERROR", "broken")
    assert second.exc_info is not None


@pytest.mark.parametrize(("descriptors", "connections"), [(100_000, 99_936), (256, 192), (64, 48)])
def test_some_descriptors_are_kept_free(descriptors: int, connections: int) -> None:
    assert node._connections(descriptors) == connections


def test_core_gets_the_new_offset_when_the_wall_clock_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[str] = []

    class Core:
        cache = Cache()

        def set_wall_offset(self, wall_offset_ns: int, now_ns: int) -> None:
            reported.append("offset")

        def set_usage(self, usage: dict[str, float]) -> None:
            reported.append("usage")

    async def scene() -> None:
        core: Any = Core()
        clock_check = node._ClockCheck(core)
        await asyncio.sleep(0)
        assert reported == ["usage"]
        monkeypatch.setattr(machine_driver, "wall_ns", lambda: wall_ns() + 3_600_000_000_000)
        clock_check._timer.cancel()
        clock_check._check()
        clock_check.stop()
        assert reported == ["usage", "offset", "usage"]

    asyncio.run(scene())


def test_endpoints_are_read_with_their_options(tmp_path: Path) -> None:
    text = f"uds:{tmp_path}/node.sock?extensions=off"
    assert not parse_endpoint(text).extensions
    reported = messages_of_node(tmp_path, text)
    assert reported[0] == f"node harbour listens at uds:{tmp_path}/node.sock"


@pytest.mark.parametrize(
    ("listen", "is_open"),
    [
        ("tcp://0.0.0.0", True),
        ("tcp://[::]:11235", True),
        ("tls://10.1.2.3", True),
        ("tcp://harbour.example", True),
        ("tcp://127.0.0.1", False),
        ("tcp://[::1]", False),
        ("tcp-v1://localhost", False),
        ("uds:/run/skerry/node.sock", False),
    ],
)
def test_endpoints_that_other_computers_can_reach_are_detected(listen: str, is_open: bool) -> None:
    assert node._is_open(listen) == is_open
