"""Messages about the programs of a vehicle: their health, and requests to terminate them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError as ProtobufError

from skerry.errors import DecodeError
from skerry.protocol.portal.identifiers import Scheme, prefix
from skerry.protocol.protobuf_tables import MessageTables, message_classes

PACKAGE: Final = "goby.middleware.protobuf"
CONFIGURATION_GROUP: Final = "goby::configuration"
"""Under which each program publishes its configuration when it starts."""

_MESSAGES: Final[MessageTables] = {
    "ThreadHealth": (
        *("1 bytes name", "2 int32 thread_id", "3 int32 uid", "10 int32 state"),
        *("11 ThreadHealth* child", "20 int32 error", "21 bytes error_message"),
    ),
    "ProcessHealth": ("1 bytes name", "2 uint32 pid", "10 ThreadHealth main"),
    "VehicleHealth": (
        *("1 uint64 time", "2 bytes platform", "10 int32 state", "11 ProcessHealth* process"),
    ),
    "TerminateTarget": ("1 bytes target_name", "2 uint32 target_pid"),
    "TerminateResult": ("1 bytes target_name", "2 uint32 target_pid", "3 int32 result"),
}
_CLASSES: Final = message_classes("skerry.portal_programs", _MESSAGES, syntax="proto2")


@dataclass(frozen=True, slots=True)
class ProgramTopic:
    """A group with the type of its messages, all of scheme PROTOBUF."""

    group: str
    message: str

    @property
    def type_name(self) -> str:
        return f"{PACKAGE}.{self.message}"

    @property
    def filter(self) -> bytes:
        return prefix(self.group, Scheme.PROTOBUF, self.type_name)


HEALTH_REQUEST: Final = ProgramTopic("goby::health::request", "HealthRequest")
HEALTH_RESPONSE: Final = ProgramTopic("goby::health::response", "ProcessHealth")
HEALTH_REPORT: Final = ProgramTopic("goby::health::report", "VehicleHealth")
TERMINATE_REQUEST: Final = ProgramTopic("goby::terminate::request", "TerminateRequest")
TERMINATE_RESPONSE: Final = ProgramTopic("goby::terminate::response", "TerminateResponse")
TERMINATE_RESULT: Final = ProgramTopic("goby::terminate::result", "TerminateResult")


class HealthState(enum.IntEnum):
    OK = 1
    DEGRADED = 2
    FAILED = 3


class HealthError(enum.IntEnum):
    NONE = 0
    """Not on the wire."""
    PROCESS_DIED = 1
    THREAD_NOT_RESPONDING = 100


class TerminateOutcome(enum.IntEnum):
    PROCESS_RESPONDED = 1
    PROCESS_CLEANLY_QUIT = 2
    TIMEOUT_RESPONSE = 3
    TIMEOUT_RUNNING = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHealth:
    """The health of a process. That of its threads is only read as a part of it."""

    name: str
    pid: int = 0
    state: HealthState = HealthState.OK
    error: HealthError = HealthError.NONE
    error_message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VehicleHealth:
    time_us: int
    platform: str
    state: HealthState
    processes: tuple[ProcessHealth, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateTarget:
    """A process that is to end, or that answers that it will."""

    name: str = ""
    """Name of the program; empty if the process id identifies it."""
    pid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminateResult:
    target: TerminateTarget
    outcome: TerminateOutcome


def write_process_health(health: ProcessHealth) -> bytes:
    """Return the bytes of a process's health."""
    return _serialized(_process(health))


def read_process_health(data: bytes) -> ProcessHealth:
    """Return the health of a process. Raises DecodeError."""
    return _read_process(_parsed("ProcessHealth", data))


def write_vehicle_health(health: VehicleHealth) -> bytes:
    """Return the bytes of the health of all processes."""
    made = _CLASSES["VehicleHealth"](
        time=health.time_us, platform=_bytes(health.platform), state=health.state
    )
    made.process.extend(_process(one) for one in health.processes)
    return _serialized(made)


def read_vehicle_health(data: bytes) -> VehicleHealth:
    """Return the health of all processes. Raises DecodeError."""
    found = _parsed("VehicleHealth", data)
    return VehicleHealth(
        time_us=found.time,
        platform=_text(found.platform),
        state=_state(found.state),
        processes=tuple(map(_read_process, found.process)),
    )


def write_target(target: TerminateTarget) -> bytes:
    """Return the bytes of a request to terminate, or of its answer."""
    made = _CLASSES["TerminateTarget"]()
    _fill(made, target)
    return _serialized(made)


def read_target(data: bytes) -> TerminateTarget:
    """Return the target of a request to terminate, or of its answer. Raises DecodeError."""
    return _target(_parsed("TerminateTarget", data))


def write_terminate_result(result: TerminateResult) -> bytes:
    """Return the bytes of the result of a request to terminate."""
    made = _CLASSES["TerminateResult"](result=result.outcome)
    _fill(made, result.target)
    return _serialized(made)


def read_terminate_result(data: bytes) -> TerminateResult:
    """Return the result of a request to terminate. Raises DecodeError."""
    found = _parsed("TerminateResult", data)
    try:
        outcome = TerminateOutcome(found.result)
    except ValueError as error:
        raise DecodeError(type_name="TerminateResult", detail=str(error)) from None
    return TerminateResult(target=_target(found), outcome=outcome)


def _fill(made: Any, target: TerminateTarget) -> None:
    if target.name:
        made.target_name = _bytes(target.name)
    if target.pid:
        made.target_pid = target.pid


def _target(found: Any) -> TerminateTarget:
    return TerminateTarget(name=_text(found.target_name), pid=found.target_pid)


def _process(health: ProcessHealth) -> Any:
    made = _CLASSES["ProcessHealth"](name=_bytes(health.name))
    if health.pid:
        made.pid = health.pid
    made.main.name = b"main"
    made.main.state = health.state
    if health.error is not HealthError.NONE:
        made.main.error = health.error
    if health.error_message:
        made.main.error_message = _bytes(health.error_message)
    return made


def _read_process(found: Any) -> ProcessHealth:
    main = found.main
    try:
        error = HealthError(main.error)
    except ValueError:
        # Of a later version; the state says how bad it is.
        error = HealthError.NONE
    return ProcessHealth(
        name=_text(found.name),
        pid=found.pid,
        state=_state(main.state),
        error=error,
        error_message=_text(main.error_message),
    )


def _state(number: int) -> HealthState:
    try:
        return HealthState(number)
    except ValueError as error:
        raise DecodeError(type_name="ThreadHealth", field="state", detail=str(error)) from None


def _parsed(name: str, data: bytes) -> Any:
    found = _CLASSES[name]()
    try:
        found.ParseFromString(data)
    except ProtobufError as error:
        raise DecodeError(type_name=name, detail=str(error)) from None
    return found


def _serialized(made: Any) -> bytes:
    data: bytes = made.SerializeToString(deterministic=True)
    return data


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
