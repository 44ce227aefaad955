"""The checks of the doctor: verdicts, facts and advice."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import skerry
from skerry.apps.doctor import checks as doctor
from skerry.apps.doctor.checks import PORTS, CheckedComputer, examine
from skerry.apps.doctor.results import CheckResult
from skerry.errors import ConnectFailed, SkerryError


def patient(folder: Path, place: str, *, endpoint: str | None = None) -> CheckedComputer:
    return CheckedComputer(
        environ={
            "SKERRY_RUNTIME_DIR": str(folder / "run"),
            "SKERRY_STATE_DIR": str(folder / "state"),
            "SKERRY_ENDPOINT": place,
            "XDG_CACHE_HOME": str(folder / "cache"),
        },
        connect=lambda: skerry.connect(place, timeout=5.0),
        endpoint=endpoint,
    )


def by_name(findings: Any) -> dict[str, CheckResult]:
    return {finding.check: finding for finding in findings}


def test_all_is_examined_and_nothing_fails_where_a_node_runs(
    tmp_path: Path, live_node: Any
) -> None:
    found = by_name(examine(patient(tmp_path, live_node.place)))
    assert {f"port {port}" for port in PORTS} < set(found)
    assert {"python", "build", "java", "runtime folder", "state folder", "clock"} < set(found)
    assert [finding for finding in found.values() if finding.verdict == "fail"] == []
    assert found["node"].verdict == "ok"
    assert found["node"].facts.startswith(f"harbour at {live_node.place}: connected in ")
    assert found["clocks"].verdict == "ok"
    assert "will be created when needed" in found["state folder"].facts


def test_every_finding_that_is_not_well_has_advice(tmp_path: Path) -> None:
    place = f"uds:{tmp_path}/none.sock"
    for finding in examine(patient(tmp_path, place, endpoint=place)):
        assert finding.verdict == "ok" or finding.advice, finding


@pytest.mark.parametrize(("is_named", "verdict"), [(False, "warn"), (True, "fail")])
def test_no_node_is_a_failure_only_if_it_was_named(
    tmp_path: Path, is_named: bool, verdict: str
) -> None:
    place = f"uds:{tmp_path}/none.sock"
    found = list(doctor._node(patient(tmp_path, place, endpoint=place if is_named else None)))
    assert [finding.verdict for finding in found] == [verdict]
    assert "skerry node run" in found[0].advice


def test_node_that_breaks_off_is_a_failure(tmp_path: Path) -> None:
    def connect() -> Any:
        raise SkerryError("something else")

    broken = CheckedComputer(environ={}, connect=connect, endpoint="tcp://127.0.0.1:1")
    (found,) = doctor._node(broken)
    assert (found.verdict, found.facts) == ("fail", "tcp://127.0.0.1:1: something else")
    assert not isinstance(SkerryError("x"), ConnectFailed)


def test_unsafe_folder_is_a_failure(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    assert doctor._folder("state folder", folder).verdict == "ok"
    folder.chmod(0o777)
    found = doctor._folder("state folder", folder)
    assert found.verdict == "fail"
    assert "SKERRY_STATE_DIR" in found.advice


@pytest.mark.parametrize("is_there", [False, True])
def test_folder_without_write_permission_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    # The tests may run as root.
    monkeypatch.setattr("os.access", lambda *_: False)
    path = tmp_path if is_there else tmp_path / "state"
    found = doctor._folder("state folder", path)
    assert found.verdict == "fail"
    assert ("read-only" if is_there else "cannot be created") in found.facts


@pytest.mark.parametrize(
    ("hard", "verdict"),
    [(256, "warn"), (4095, "warn"), (4096, "ok"), (resource.RLIM_INFINITY, "ok")],
)
def test_few_file_descriptors_are_worth_a_warning(
    monkeypatch: pytest.MonkeyPatch, hard: int, verdict: str
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _kind: (256, hard))
    assert doctor._descriptors().verdict == verdict


@pytest.mark.parametrize(
    ("size", "verdict"), [(425_984, "warn"), (2_097_151, "warn"), (2_097_152, "ok")]
)
def test_small_socket_buffers_are_worth_a_warning(
    monkeypatch: pytest.MonkeyPatch, size: int, verdict: str
) -> None:
    class Probe(socket.socket):
        def getsockopt(self, *_arguments: Any) -> Any:
            return size

    monkeypatch.setattr("skerry.apps.doctor.checks.socket.socket", Probe)
    found = doctor._buffers()
    assert found.verdict == verdict
    # Linux reports twice the size that was set: a buffer is never larger than what is requested.
    assert found.facts == "1.05 MB" or " of 1.05 MB" in found.facts


@pytest.mark.parametrize(
    ("now_s", "synchronised", "verdict"),
    [(0.0, True, "fail"), (2e9, True, "ok"), (2e9, False, "warn"), (2e9, None, "ok")],
)
def test_clock_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, now_s: float, synchronised: bool | None, verdict: str
) -> None:
    monkeypatch.setattr(doctor, "time", lambda: now_s)
    monkeypatch.setattr(doctor, "_is_synchronised", lambda: synchronised)
    assert doctor._clock().verdict == verdict


def test_synchronisation_of_the_clock_is_read() -> None:
    assert doctor._is_synchronised() in (True, False, None)


def test_clock_that_is_apart_from_the_nodes_is_worth_a_warning(
    live_node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "time", lambda: 5.0)
    with skerry.connect(live_node.place) as space:
        assert doctor._clock_difference(space, 5.0).verdict == "warn"


def test_slow_answers_are_worth_a_warning(live_node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_ROUND_MS_SLOW", 0.0)
    with skerry.connect(live_node.place) as space:
        assert doctor._round_trip(space, "here", 1.0).verdict == "warn"


def test_java_is_looked_for_as_spark_would(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\"' >&2\n")
    program.chmod(0o755)
    usual = patient(tmp_path, "uds:nowhere")
    found = doctor._java(replace(usual, environ={"JAVA_HOME": str(tmp_path)}))
    assert found.verdict == "ok"
    assert f"version 21 at {tmp_path}" in found.facts
    none = doctor._java(replace(usual, environ={"JAVA_HOME": str(tmp_path / "none")}))
    assert none.verdict == "warn"
    assert "JAVA_HOME" in none.advice


def test_missing_extra_has_advice_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    found = by_name(doctor._extras())
    assert "pip install 'skerry[speed]'" in found["extra speed"].advice


@pytest.mark.parametrize(("mode", "verdict"), [("plain", "warn"), ("compiled", "ok")])
def test_plain_build_is_worth_a_warning(
    monkeypatch: pytest.MonkeyPatch, mode: str, verdict: str
) -> None:
    monkeypatch.setattr("skerry.build_info.mode", lambda: mode)
    assert doctor._build().verdict == verdict


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], CheckResult]:
    def looked_at(number: int) -> CheckResult:
        monkeypatch.setattr(doctor, "PORTS", {number: "tests"})
        return doctor._port(number)

    return looked_at


def test_port_is_free_or_in_use(
    port: Callable[[int], CheckResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        monkeypatch.setattr(doctor, "port_user", lambda _port: "process 1 (other)")
        assert port(number).verdict == "warn"
        assert "used by process 1 (other)" in port(number).facts
        monkeypatch.setattr(doctor, "port_user", lambda _port: "process 1 (skerry node run)")
        assert port(number).verdict == "ok"
        monkeypatch.setattr(doctor, "port_user", lambda _port: None)
        assert "a program of another user" in port(number).facts
    assert port(number).facts == "free, for tests"


def test_socket_that_a_node_left_behind_is_worth_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "node.sock"
    assert doctor._socket(path).facts == f"{path} is free"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        assert doctor._socket(path).facts == f"{path}: a node answers"
    found = doctor._socket(path)
    assert (found.verdict, found.check) == ("warn", "default socket")
    assert "no node answers" in found.facts
