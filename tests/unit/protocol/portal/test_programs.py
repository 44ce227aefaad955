"""Health, the coroner, termination, and the configuration of Goby programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skerry.errors import ConfigError, DecodeError
from skerry.protocol.portal.goby_config import (
    read_daemon_config,
    read_interprocess,
    read_program_config,
)
from skerry.protocol.portal.identifiers import read_frame
from skerry.protocol.portal.programs.coroner import TRACKED_PROGRAM_COUNT_MAX, Coroner
from skerry.protocol.portal.programs.program_answers import ProgramAnswers
from skerry.protocol.portal.programs.program_messages import (
    HEALTH_REPORT,
    HEALTH_RESPONSE,
    TERMINATE_REQUEST,
    TERMINATE_RESPONSE,
    TERMINATE_RESULT,
    HealthError,
    HealthState,
    ProcessHealth,
    ProgramTopic,
    TerminateOutcome,
    TerminateResult,
    TerminateTarget,
    VehicleHealth,
    read_process_health,
    read_target,
    read_terminate_result,
    read_vehicle_health,
    write_process_health,
    write_target,
    write_terminate_result,
    write_vehicle_health,
)
from skerry.protocol.portal.programs.terminator import Terminator

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "goby"
SECOND = 1_000_000_000


def vector(name: str) -> tuple[bytes, bytes]:
    """The filter and the payload of a captured publication."""
    vectors = json.loads((GOLDEN / "manager-ipc.json").read_text())["vectors"]
    found = read_frame(bytes.fromhex(next(v["hex"] for v in vectors if v["name"] == name)))
    return found.identifier.key, found.payload


def test_the_captured_answer_about_health() -> None:
    key, payload = vector("health_response_daemon")
    assert key == HEALTH_RESPONSE.filter
    health = read_process_health(payload)
    assert health == ProcessHealth(name="gobyd", pid=10872)
    assert ProgramAnswers(name="gobyd", pid=10872).health(HealthState.OK) == payload


def test_a_topic_has_a_filter() -> None:
    assert ProgramTopic("g", "T").filter == b"/g/PROTOBUF/goby.middleware.protobuf.T/"


def test_the_captured_termination() -> None:
    key, request = vector("terminate_request")
    assert key == TERMINATE_REQUEST.filter
    assert read_target(request) == TerminateTarget(name="gobyd")
    assert write_target(TerminateTarget(name="gobyd")) == request
    key, response = vector("terminate_response")
    assert key == TERMINATE_RESPONSE.filter
    assert ProgramAnswers(name="gobyd", pid=10872).termination(request) == response


@pytest.mark.parametrize(
    ("target", "is_meant"),
    [
        (TerminateTarget(name="pilot"), True),
        (TerminateTarget(pid=7), True),
        (TerminateTarget(name="other"), False),
        (TerminateTarget(pid=8), False),
        (TerminateTarget(), False),
    ],
)
def test_a_program_answers_for_itself_only(target: TerminateTarget, is_meant: bool) -> None:
    answers = ProgramAnswers(name="pilot", pid=7)
    assert (answers.termination(write_target(target)) is not None) == is_meant
    assert answers.termination(b"\xff") is None


def test_the_health_of_a_vehicle_is_written_and_read() -> None:
    failed = ProcessHealth(
        name="b",
        state=HealthState.FAILED,
        error=HealthError.PROCESS_DIED,
        error_message="text",
    )
    vehicle = VehicleHealth(
        time_us=123,
        platform="auv",
        state=HealthState.FAILED,
        processes=(ProcessHealth(name="a", pid=1), failed),
    )
    assert read_vehicle_health(write_vehicle_health(vehicle)) == vehicle
    assert HEALTH_REPORT.filter.endswith(b"VehicleHealth/")
    for data in (b"\xff", b"\x0a\x01x"):
        with pytest.raises(DecodeError):
            read_process_health(data)


def test_the_coroner_finds_who_does_not_answer() -> None:
    coroner = Coroner(platform="auv", expected=["pilot", "logger"], now_ns=0)
    assert coroner.is_question_due(0)
    assert not coroner.is_question_due(1)
    coroner.receive(write_process_health(ProcessHealth(name="pilot", pid=5)))
    coroner.receive(write_process_health(ProcessHealth(name="new", state=HealthState.DEGRADED)))
    coroner.receive(b"\xff")
    assert coroner.deadline_ns() == 5 * SECOND
    assert coroner.take_report(4 * SECOND, 1) is None
    report = coroner.take_report(5 * SECOND, 99)
    assert report is not None
    assert (report.time_us, report.state) == (99, HealthState.FAILED)
    assert {one.name: one.state for one in report.processes} == {
        "pilot": HealthState.OK,
        "logger": HealthState.FAILED,
        "new": HealthState.DEGRADED,
    }
    assert coroner.malformed_count == 1
    assert coroner.deadline_ns() == 10 * SECOND
    # All are asked again, and what they said before does not count.
    assert coroner.is_question_due(10 * SECOND)
    again = coroner.take_report(15 * SECOND, 100)
    assert again is not None
    assert {one.error for one in again.processes} == {HealthError.PROCESS_DIED}


def test_the_coroner_tracks_a_bounded_number_of_programs() -> None:
    coroner = Coroner(platform="auv", now_ns=0)
    for number in range(TRACKED_PROGRAM_COUNT_MAX + 5):
        coroner.receive(write_process_health(ProcessHealth(name=str(number))))
    strict = Coroner(platform="auv", adds_responders=False, now_ns=0)
    strict.receive(write_process_health(ProcessHealth(name="new")))
    for one, count in ((coroner, TRACKED_PROGRAM_COUNT_MAX), (strict, 0)):
        assert one.is_question_due(0)
        report = one.take_report(5 * SECOND, 1)
        assert report is not None
        assert len(report.processes) == count


def test_a_program_that_answers_and_ends() -> None:
    target = TerminateTarget(name="pilot")
    terminator = Terminator([target], now_ns=0)
    assert terminator.take_requests(0) == [target]
    assert terminator.take_requests(SECOND // 20) == []
    assert terminator.take_requests(SECOND // 10) == [target]
    answer = TerminateTarget(name="pilot", pid=7)
    responded = TerminateResult(target=answer, outcome=TerminateOutcome.PROCESS_RESPONDED)
    assert terminator.receive(write_target(TerminateTarget(name="other", pid=8)), SECOND) == []
    assert terminator.receive(b"\xff", SECOND) == []
    assert terminator.receive(write_target(answer), SECOND) == [responded]
    assert terminator.receive(write_target(answer), SECOND) == []
    assert terminator.take_requests(SECOND) == []
    assert terminator.answered_pids() == [7]
    assert terminator.take_results({7}, SECOND) == []
    quit_ = TerminateResult(target=answer, outcome=TerminateOutcome.PROCESS_CLEANLY_QUIT)
    assert terminator.take_results(set(), 2 * SECOND) == [quit_]
    assert terminator.is_over
    assert not terminator.has_failed
    assert read_terminate_result(write_terminate_result(quit_)) == quit_
    assert TERMINATE_RESULT.filter.endswith(b"TerminateResult/")


def test_programs_that_do_not_answer_or_do_not_end() -> None:
    silent, stuck = TerminateTarget(name="silent"), TerminateTarget(pid=9)
    terminator = Terminator([silent, stuck], now_ns=0)
    terminator.receive(write_target(TerminateTarget(name="x", pid=9)), 5 * SECOND)
    assert [one.outcome for one in terminator.take_results({9}, 10 * SECOND)] == [
        TerminateOutcome.TIMEOUT_RESPONSE
    ]
    assert [one.outcome for one in terminator.take_results({9}, 15 * SECOND)] == [
        TerminateOutcome.TIMEOUT_RUNNING
    ]
    assert terminator.has_failed


def test_the_configuration_of_a_daemon() -> None:
    found = read_daemon_config(
        """
        app { name: "gobyd" }
        router_threads: 4
        interprocess {
          platform: "auv" transport: TCP ip_address: "fd00::1" tcp_port: 99 client_name: "c"
          send_queue_size: 5 receive_queue_size: 6 socket_name: "/x"
          zeromq_number_io_threads: 2 manager_timeout_seconds: 7
        }
        hold { required_client: "pilot" required_client: "logger" }
        """,
        origin="file x",
    )
    assert found.interprocess == {
        "platform": "auv",
        "transport": "tcp",
        "address": "fd00::1",
        "tcp_port": 99,
        "client_name": "c",
        "send_queue_size": 5,
        "receive_queue_size": 6,
        "socket_name": "/x",
        "io_threads": 2,
        "manager_timeout_s": 7.0,
    }
    assert (found.name, found.router_threads, found.ignored) == ("gobyd", 4, "")
    assert found.required_clients == ("pilot", "logger")


def test_other_parts_of_a_configuration_are_ignored_and_named() -> None:
    found = read_daemon_config('intervehicle { x: 1 } app { name: "a" }', origin="file x")
    assert found.name == "a"
    assert "intervehicle" in found.ignored


def test_a_program_has_fields_with_names_of_the_daemon() -> None:
    found = read_program_config(
        'app { name: "a" } hold: true router_threads: "x" interprocess { platform: "auv" }',
        origin="file x",
    )
    assert (found.name, found.interprocess) == ("a", {"platform": "auv"})
    with pytest.raises(ConfigError, match="file x"):
        read_program_config('interprocess { platform: "a"', origin="file x")


@pytest.mark.parametrize("text", ["platform: ", "transport: PIGEON", "unknown: 1", "{" * 5000])
def test_an_invalid_text_is_an_error_that_names_its_origin(text: str) -> None:
    with pytest.raises(ConfigError, match="environment GOBY_INTERPROCESS"):
        read_interprocess(text, origin="environment GOBY_INTERPROCESS")


def test_an_invalid_file_is_an_error() -> None:
    with pytest.raises(ConfigError, match="file x"):
        read_daemon_config("app { name: }", origin="file x")
