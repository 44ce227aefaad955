"""`skerry portal terminate` and `skerry portal coroner`: end programs, and watch their health."""

from __future__ import annotations

import os
import queue
import time
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import FiniteFloat, count_option
from skerry.cli.portal.options import connect_or_fail, portal_options
from skerry.cli.stopping import stop_on_signals

if TYPE_CHECKING:
    from skerry.client.portal.sync import PortalConnection
    from skerry.protocol.portal.programs.program_messages import ProgramTopic, VehicleHealth

_STEP_S = 0.05
"""Interval at which deadlines, processes and stop requests are looked at."""


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="NAME|PID...")
@portal_options
def terminate(*, targets: tuple[str, ...], chosen: dict[str, Any]) -> int:
    """Ask programs to terminate, and wait until they have ended.

    A program is named, or identified by its process id. It has 10 s to answer, and 10 s to end
    after that. The exit code is 1 if a program did neither.

    \b
    Examples:
      skerry portal terminate pilot
      skerry portal terminate 4711 gobyd --platform auv
    """
    from skerry.protocol.portal.programs.program_messages import (
        TERMINATE_REQUEST,
        TERMINATE_RESPONSE,
        TERMINATE_RESULT,
        TerminateTarget,
        write_target,
        write_terminate_result,
    )
    from skerry.protocol.portal.programs.terminator import Terminator

    output = current_output()
    wanted = [
        TerminateTarget(pid=int(text))
        if text.isascii() and text.isdigit()
        else TerminateTarget(name=text)
        for text in dict.fromkeys(targets)
    ]
    with connect_or_fail("skerry_terminate", chosen) as connection, stop_on_signals() as stop:
        answers = _subscribed(connection, TERMINATE_RESPONSE)
        terminator = Terminator(wanted, now_ns=time.monotonic_ns())
        while not terminator.is_over and not stop.is_requested:
            now_ns = time.monotonic_ns()
            for target in terminator.take_requests(now_ns):
                _publish(connection, TERMINATE_REQUEST, write_target(target))
            results = []
            try:
                results += terminator.receive(answers.get(timeout=_STEP_S), now_ns)
            except queue.Empty:
                running = {pid for pid in terminator.answered_pids() if _runs(pid)}
                results += terminator.take_results(running, now_ns)
            for result in results:
                _publish(connection, TERMINATE_RESULT, write_terminate_result(result))
                name = result.target.name or str(result.target.pid)
                output.line(f"{name}: {result.outcome.name.lower().replace('_', ' ')}")
    return int(terminator.has_failed or not terminator.is_over)


@click.command()
@click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="NAME",
    help="Program that must answer; may be repeated. Default: those that answer once.",
)
@click.option(
    "--interval",
    type=FiniteFloat(min=0.1, max=3600),
    default=10.0,
    metavar="SECONDS",
    help="Interval of the reports.",
)
@click.option(
    "--wait",
    type=FiniteFloat(min=0.05, max=3600),
    metavar="SECONDS",
    help="Time for programs to answer. Default: half the interval.",
)
@count_option("reports")
@portal_options
@json_option
def coroner(
    *,
    expected: tuple[str, ...],
    interval: float,
    wait: float | None,
    count: int | None,
    chosen: dict[str, Any],
    as_json: bool,
) -> None:
    """Ask all programs for their health, print it, and publish it as that of the vehicle.

    A program that does not answer has failed. Prints a line per program and report.

    \b
    Examples:
      skerry portal coroner --expect pilot --expect logger
      skerry portal coroner --interval 1 --count 1 --json
    """
    from skerry.protocol.portal.programs.coroner import Coroner
    from skerry.protocol.portal.programs.program_messages import (
        HEALTH_REPORT,
        HEALTH_REQUEST,
        HEALTH_RESPONSE,
        write_vehicle_health,
    )

    response_s = interval / 2 if wait is None else wait
    if response_s > interval:
        raise click.UsageError("--wait is longer than --interval")
    with connect_or_fail("skerry_coroner", chosen) as connection, stop_on_signals() as stop:
        answers = _subscribed(connection, HEALTH_RESPONSE)
        machine = Coroner(
            platform=connection.config.platform,
            expected=expected,
            interval_s=interval,
            response_s=response_s,
            now_ns=time.monotonic_ns(),
        )
        report_count = 0
        while not stop.is_requested and (count is None or report_count < count):
            now_ns = time.monotonic_ns()
            if machine.is_question_due(now_ns):
                _publish(connection, HEALTH_REQUEST, b"")
            report = machine.take_report(now_ns, time.time_ns() // 1000)
            if report is not None:
                report_count += 1
                _publish(connection, HEALTH_REPORT, write_vehicle_health(report))
                _print_report(report, as_json=as_json)
            try:
                machine.receive(answers.get(timeout=_STEP_S))
            except queue.Empty:
                continue


def _print_report(report: VehicleHealth, *, as_json: bool) -> None:
    output = current_output()
    for one in report.processes:
        state, error = one.state.name.lower(), one.error.name.lower().replace("_", " ")
        if as_json:
            output.json_line(
                time_us=report.time_us,
                name=one.name,
                pid=one.pid or None,
                state=state,
                error=error,
                message=one.error_message,
            )
        else:
            details = " ".join(text for text in (error, one.error_message) if text != "none")
            output.line(f"{one.name} {state} {details}".rstrip())


def _subscribed(connection: PortalConnection, topic: ProgramTopic) -> queue.SimpleQueue[bytes]:
    """The payloads of a topic."""
    from skerry.protocol.portal.identifiers import Scheme

    found: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    connection.subscribe(
        lambda publication: found.put(publication.payload),
        topic.group,
        Scheme.PROTOBUF,
        topic.type_name,
    )
    connection.settle()
    return found


def _publish(connection: PortalConnection, topic: ProgramTopic, payload: bytes) -> None:
    from skerry.protocol.portal.identifiers import Scheme

    connection.publish(topic.group, payload, scheme=Scheme.PROTOBUF, type_name=topic.type_name)


def _runs(pid: int) -> bool:
    """Whether a process of this computer runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OverflowError:
        return False
    return True
