"""Is this computer fit for skerry? Each check says what it found, and what to change.

A check that fails keeps something from working; one that warns is worth knowing.
"""

from __future__ import annotations

import ctypes
import errno
import importlib.metadata
import importlib.util
import os
import platform
import resource
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, time
from typing import Final, Literal

from skerry import build_info
from skerry.apps.doctor.port_users import port_user
from skerry.client.api.sync import Space
from skerry.client.io.endpoint_opener import default_endpoint
from skerry.errors import ConfigError, ConnectFailed, SkerryError
from skerry.runtime.java import find_java
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.system_folders import default_socket, make_folder, runtime_folder, state_folder

__all__ = ["PORTS", "CheckResult", "CheckedComputer", "Verdict", "examine"]

Verdict = Literal["ok", "warn", "fail"]

PORTS: Final = {
    11233: "WebSocket",
    11234: "the old framing of DOTS",
    11235: "clients",
    11236: "TLS",
    11237: "metrics and health",
}
"""The usual ports of a node, and what each is for."""

_DESCRIPTORS_FEW: Final = 4096
"""A node needs one for each client and each file: these are enough for some thousand clients."""
_SEND_BYTES_MIN: Final = 1024 * 1024
"""Room on its way out that a node wants for each connection."""
_ROUND_COUNT: Final = 20
_ROUND_MS_SLOW: Final = 20.0
_ANSWER_S_MAX: Final = 2.0
_CLOCK_S_MAX: Final = 1.0
_YOUNGEST_S: Final = 1_767_225_600.0
"""The beginning of 2026: no clock that is right shows less."""
_TIME_ERROR: Final = 5
_EXTRAS: Final = {
    "uvloop": ("speed", "a faster event loop for the node"),
    "psycopg": ("postgres", "storing objects in PostgreSQL"),
    "pyspark": ("spark", "tables of what was recorded"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """What a check found."""

    check: str
    verdict: Verdict
    facts: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedComputer:
    """What is examined."""

    environ: Mapping[str, str]
    connect: Callable[[], Space]
    """Makes a connection to the node that is meant."""
    endpoint: str | None = None
    """The node that was named, if one was."""


def examine(patient: CheckedComputer) -> Iterable[CheckResult]:
    """All checks, each told as it is done."""
    yield _python()
    yield _build()
    yield from _extras()
    yield _java(patient)
    yield from _folders(patient)
    yield _descriptors()
    yield _buffers()
    yield _clock()
    yield from _node(patient)
    yield _socket(default_socket(patient.environ))
    yield from map(_port, PORTS)


def _python() -> CheckResult:
    found = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    return CheckResult(check="python", verdict="ok", facts=found)


def _build() -> CheckResult:
    count = len(build_info.compiled_modules())
    facts = f"skerry {build_info.version()}, {build_info.mode()}"
    if build_info.mode() == "compiled":
        return CheckResult(check="build", verdict="ok", facts=f"{facts}, {count} modules")
    return CheckResult(
        check="build",
        verdict="warn",
        facts=facts,
        advice="it works, several times slower; install it anew where a C compiler and the"
        " headers of Python are",
    )


def _extras() -> Iterable[CheckResult]:
    for module, (extra, purpose) in _EXTRAS.items():
        if importlib.util.find_spec(module) is None:
            yield CheckResult(
                check=f"extra {extra}",
                verdict="ok",
                facts=f"not installed: {purpose}",
                advice=f"if you want it: pip install 'skerry[{extra}]'",
            )
        else:
            version = importlib.metadata.version(module)
            yield CheckResult(check=f"extra {extra}", verdict="ok", facts=f"{module} {version}")


def _java(patient: CheckedComputer) -> CheckResult:
    try:
        found = find_java(patient.environ)
    except SkerryError as error:
        return CheckResult(check="java", verdict="warn", facts=str(error), advice=error.hint or "")
    facts = f"version {found.version} at {found.home} (by {found.origin}), for the pipeline"
    return CheckResult(check="java", verdict="ok", facts=facts)


# -- the computer


def _folders(patient: CheckedComputer) -> Iterable[CheckResult]:
    folders = {
        "runtime folder": runtime_folder(patient.environ),
        "state folder": state_folder(patient.environ),
    }
    for check, path in folders.items():
        yield _folder(check, path)


def _folder(check: str, path: Path) -> CheckResult:
    if not path.exists():
        above = next(parent for parent in path.parents if parent.exists())
        if os.access(above, os.W_OK | os.X_OK):
            return CheckResult(check=check, verdict="ok", facts=f"{path} will be made when needed")
        advice = "name another by SKERRY_RUNTIME_DIR or SKERRY_STATE_DIR"
        facts = f"{path} cannot be made: {above} is not ours to write in"
        return CheckResult(check=check, verdict="fail", facts=facts, advice=advice)
    try:
        make_folder(path)
    except ConfigError as error:
        return CheckResult(check=check, verdict="fail", facts=str(error), advice=error.hint or "")
    if not os.access(path, os.W_OK | os.X_OK):
        advice = "let this user write there, or name another folder"
        return CheckResult(check=check, verdict="fail", facts=f"{path} is read-only", advice=advice)
    return CheckResult(check=check, verdict="ok", facts=str(path))


def _descriptors() -> CheckResult:
    # The node raises its own soft limit; the hard one is what counts.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    facts = "no limit" if hard == resource.RLIM_INFINITY else f"{hard} at most"
    if hard != resource.RLIM_INFINITY and hard < _DESCRIPTORS_FEW:
        return CheckResult(
            check="file descriptors",
            verdict="warn",
            facts=facts,
            advice="each client of a node takes one; raise `ulimit -Hn`, or LimitNOFILE of the"
            " service",
        )
    return CheckResult(check="file descriptors", verdict="ok", facts=facts)


def _buffers() -> CheckResult:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES_MIN)
        size = probe.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    facts = f"{size} bytes of {_SEND_BYTES_MIN} that are asked for"
    if size < _SEND_BYTES_MIN:
        return CheckResult(
            check="socket buffers",
            verdict="warn",
            facts=facts,
            advice=f"bursts make clients wait sooner; sysctl net.core.wmem_max={_SEND_BYTES_MIN}",
        )
    return CheckResult(check="socket buffers", verdict="ok", facts=facts)


def _clock() -> CheckResult:
    if time() < _YOUNGEST_S:
        return CheckResult(
            check="clock",
            verdict="fail",
            facts="the clock of this computer shows a time long ago",
            advice="set it: updates carry times, and tools compare them",
        )
    synchronised = _is_synchronised()
    if synchronised is None:
        return CheckResult(
            check="clock", verdict="ok", facts="whether it is kept right is not known"
        )
    if not synchronised:
        return CheckResult(
            check="clock",
            verdict="warn",
            facts="nothing keeps it right",
            advice="run chrony or another time service where several computers work together",
        )
    return CheckResult(check="clock", verdict="ok", facts="kept right by a time service")


def _is_synchronised() -> bool | None:
    """What the system says about its clock; None when it cannot be asked."""
    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return None
    # All zero asks and changes nothing; the struct of the kernel has 208 bytes.
    state = adjtimex(ctypes.create_string_buffer(512))
    return None if state < 0 else bool(state != _TIME_ERROR)


# -- the node


def _node(patient: CheckedComputer) -> Iterable[CheckResult]:
    place = _place(patient)
    try:
        started_s = perf_counter()
        with patient.connect() as space:
            connected_ms = (perf_counter() - started_s) * 1e3
            yield _speed(space, place, connected_ms)
            yield _clocks_together(space)
    except ConnectFailed as error:
        # Where nobody named a node there need not be one.
        yield CheckResult(
            check="node",
            verdict="warn" if patient.endpoint is None else "fail",
            facts=str(error),
            advice=error.hint or "",
        )
    except SkerryError as error:
        facts = f"{place}: {error}"
        yield CheckResult(check="node", verdict="fail", facts=facts, advice=error.hint or "")


def _place(patient: CheckedComputer) -> str:
    named = patient.endpoint or default_endpoint(patient.environ)
    return parse_endpoint(named).text


def _speed(space: Space, place: str, connected_ms: float) -> CheckResult:
    rounds: list[float] = []
    for _ in range(_ROUND_COUNT):
        started_s = perf_counter()
        space.flush()
        rounds.append((perf_counter() - started_s) * 1e3)
    round_ms = median(rounds)
    facts = (
        f"{space.node_name} at {place}: connected in {connected_ms:.0f} ms, "
        f"round trip {round_ms:.2f} ms"
    )
    if round_ms > _ROUND_MS_SLOW:
        advice = "the node, this computer or the way between them is busy; see `skerry top`"
        return CheckResult(check="node", verdict="warn", facts=facts, advice=advice)
    return CheckResult(check="node", verdict="ok", facts=facts)


def _clocks_together(space: Space) -> CheckResult:
    """How far our clock is from the node's: told by what the node says of ourselves."""
    with space.subscribe("DotsClient") as events:
        for event in iter(lambda: events.get(timeout=2.0), None):
            if event.object.id == space.client_id and event.header.server_sent_time > 0:
                apart_s = abs(time() - event.header.server_sent_time)
                break
        else:
            return CheckResult(
                check="clocks", verdict="ok", facts="the node does not tell its time"
            )
    facts = f"{apart_s:.3f} s apart from the node's"
    if apart_s > _CLOCK_S_MAX:
        advice = "set both right: ages of objects are wrong by so much"
        return CheckResult(check="clocks", verdict="warn", facts=facts, advice=advice)
    return CheckResult(check="clocks", verdict="ok", facts=facts)


def _socket(path: Path) -> CheckResult:
    """Whether somebody answers at the Unix socket of this computer's node."""
    if not path.is_socket():
        return CheckResult(check="usual socket", verdict="ok", facts=f"{path} is free")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_ANSWER_S_MAX)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            facts = f"{path} is there, and nobody answers: {error.strerror or error}"
            advice = "a node that was killed left it behind; the next one replaces it"
            return CheckResult(check="usual socket", verdict="warn", facts=facts, advice=advice)
    return CheckResult(check="usual socket", verdict="ok", facts=f"{path}: somebody answers")


def _port(port: int) -> CheckResult:
    check = f"port {port}"
    purpose = PORTS[port]
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                facts = f"for {purpose}: {error.strerror}"
                advice = "let this user listen there, or name another place with --listen"
                return CheckResult(check=check, verdict="warn", facts=facts, advice=advice)
        else:
            return CheckResult(check=check, verdict="ok", facts=f"free, for {purpose}")
    user = port_user(port)
    facts = f"for {purpose}: used by {user or 'a program of somebody else'}"
    if user is not None and "skerry" in user:
        return CheckResult(check=check, verdict="ok", facts=facts)
    advice = "a node of yours would pass it over; name another place with --listen"
    return CheckResult(check=check, verdict="warn", facts=facts, advice=advice)
