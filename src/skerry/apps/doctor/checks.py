"""Checks of this computer: build, folders, limits, clock, node and ports.

A failed check means that something does not work. A warning means that it works, but not well.
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter, time
from typing import Final

from skerry import build_info
from skerry.apps.doctor.results import CheckResult, failure, judged, passed, warning
from skerry.apps.doctor.system_checks import examine_system
from skerry.client.api.sync import Space
from skerry.client.io.endpoint_opener import default_endpoint
from skerry.errors import ConfigError, ConnectFailed, SkerryError
from skerry.formatting import bytes_text, count, counted
from skerry.runtime.java import find_java
from skerry.runtime.streams.endpoints import parse_endpoint
from skerry.runtime.system_folders import default_socket, make_folder, runtime_folder, state_folder

PORTS: Final = {
    11233: "WebSocket",
    11234: "clients with the old framing of DOTS",
    11235: "clients",
    11236: "TLS",
    11237: "metrics and health",
}
"""The default ports of a node and their purposes."""

_DESCRIPTORS_FEW: Final = 4096
"""File descriptors for some thousand clients: a node needs one for each client and each file."""
_SEND_BYTES_MIN: Final = 1024 * 1024
"""Send buffer that a node requests for each connection."""
_PROC: Final = Path("/proc")
_LISTENS: Final = "0A"
_WORD_CHAR_COUNT_MAX: Final = 80
_ROUND_COUNT: Final = 20
_ROUND_MS_SLOW: Final = 20.0
_ANSWER_S_MAX: Final = 2.0
_CLOCK_S_MAX: Final = 1.0
_YOUNGEST_S: Final = 1_767_225_600.0
"""The beginning of 2026: an earlier time is wrong."""
_TIME_ERROR: Final = 5
_EXTRAS: Final = {
    "uvloop": ("speed", "a faster event loop for the node"),
    "psycopg": ("postgres", "storing objects in PostgreSQL"),
    "pyspark": ("spark", "tables of recordings"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedComputer:
    """The environment and the node to check."""

    environ: Mapping[str, str]
    connect: Callable[[], Space]
    endpoint: str | None = None
    """The endpoint given by the user; None for the default node."""


def examine(computer: CheckedComputer) -> Iterable[CheckResult]:
    """Run all checks, and yield each result as it is known."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    yield passed("python", f"{python} at {sys.executable}")
    yield _build()
    yield from _extras()
    yield _java(computer)
    yield from _folders(computer)
    yield _descriptors()
    yield _buffers()
    yield _clock()
    yield from _node(computer)
    yield _socket(default_socket(computer.environ))
    yield from map(_port, PORTS)


def _build() -> CheckResult:
    modules = len(build_info.compiled_modules())
    facts = f"skerry {build_info.version()}, {build_info.mode()}"
    if build_info.mode() == "compiled":
        return passed("build", f"{facts}, {counted(modules, 'module')}")
    return warning(
        "build",
        facts,
        "the uncompiled build works, but is several times slower; reinstall skerry with a"
        " C compiler and the Python headers installed",
    )


def _extras() -> Iterable[CheckResult]:
    for module, (extra, purpose) in _EXTRAS.items():
        if importlib.util.find_spec(module) is None:
            advice = f"to install it: pip install 'skerry[{extra}]'"
            yield passed(f"extra {extra}", f"not installed: {purpose}", advice)
        else:
            version = importlib.metadata.version(module)
            yield passed(f"extra {extra}", f"{module} {version}")


def _java(computer: CheckedComputer) -> CheckResult:
    try:
        found = find_java(computer.environ)
    except SkerryError as error:
        return warning("java", str(error), error.hint or "")
    facts = f"version {found.version} at {found.home} (from {found.origin}), for the pipeline"
    return passed("java", facts)


# -- the computer


def _folders(computer: CheckedComputer) -> Iterable[CheckResult]:
    yield _folder("runtime folder", runtime_folder(computer.environ))
    yield _folder("state folder", state_folder(computer.environ))


def _folder(check: str, path: Path) -> CheckResult:
    if not path.exists():
        above = next(parent for parent in path.parents if parent.exists())
        if os.access(above, os.W_OK | os.X_OK):
            return passed(check, f"{path} will be created when needed")
        advice = "choose another folder with SKERRY_RUNTIME_DIR or SKERRY_STATE_DIR"
        facts = f"{path} cannot be created: no permission to write to {above}"
        return failure(check, facts, advice)
    try:
        make_folder(path)
    except ConfigError as error:
        return failure(check, str(error), error.hint or "")
    if not os.access(path, os.W_OK | os.X_OK):
        advice = "allow this user to write there, or choose another folder"
        return failure(check, f"{path} is read-only", advice)
    return passed(check, str(path))


def _descriptors() -> CheckResult:
    # The node raises its soft limit to the hard one.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    facts = "no limit" if hard == resource.RLIM_INFINITY else f"{count(hard)} at most"
    advice = "each client of a node needs one; raise `ulimit -Hn`, or LimitNOFILE of the service"
    is_well = hard == resource.RLIM_INFINITY or hard >= _DESCRIPTORS_FEW
    return judged("file descriptors", facts, advice, is_well=is_well)


def _buffers() -> CheckResult:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES_MIN)
        size = probe.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
    if sys.platform == "linux":
        size //= 2  # Linux reports twice the usable size, for its own bookkeeping.
    facts = bytes_text(size)
    if size < _SEND_BYTES_MIN:
        facts += f" of {bytes_text(_SEND_BYTES_MIN)} that a node requests for each connection"
    advice = f"clients wait sooner in bursts; sysctl net.core.wmem_max={_SEND_BYTES_MIN}"
    return judged("socket buffers", facts, advice, is_well=size >= _SEND_BYTES_MIN)


def _clock() -> CheckResult:
    if time() < _YOUNGEST_S:
        advice = "set it: updates have times, which tools compare"
        return failure("clock", "the clock of this computer is years slow", advice)
    synchronised = _is_synchronised()
    if synchronised is None:
        return passed("clock", "not known whether it is synchronised")
    if synchronised:
        return passed("clock", "synchronised by a time service")
    advice = "run chrony or another time service if several computers work together"
    return warning("clock", "not synchronised", advice)


def _is_synchronised() -> bool | None:
    """Whether the kernel considers the clock synchronised; None if that is not available."""
    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return None
    # All zero reads without a change; the struct of the kernel has 208 bytes.
    state = adjtimex(ctypes.create_string_buffer(512))
    return None if state < 0 else bool(state != _TIME_ERROR)


# -- the node


def _node(computer: CheckedComputer) -> Iterable[CheckResult]:
    named = computer.endpoint or default_endpoint(computer.environ)
    endpoint = parse_endpoint(named).text
    try:
        began_s, started_s = time(), perf_counter()
        with computer.connect() as space:
            connected_ms = (perf_counter() - started_s) * 1e3
            yield _round_trip(space, endpoint, connected_ms)
            yield _clock_difference(space, began_s)
            yield from examine_system(space)
    except ConnectFailed as error:
        # The default node need not run.
        result = warning if computer.endpoint is None else failure
        yield result("node", str(error), error.hint or "")
    except SkerryError as error:
        yield failure("node", f"{endpoint}: {error}", error.hint or "")


def _round_trip(space: Space, endpoint: str, connected_ms: float) -> CheckResult:
    rounds: list[float] = []
    for _ in range(_ROUND_COUNT):
        started_s = perf_counter()
        space.flush()
        rounds.append((perf_counter() - started_s) * 1e3)
    round_ms = median(rounds)
    facts = (
        f"{space.node_name} at {endpoint}: connected in {connected_ms:.0f} ms, "
        f"round trip {round_ms:.3g} ms"
    )
    advice = "the node, this computer or the network is busy; see `skerry top`"
    return judged("node", facts, advice, is_well=round_ms <= _ROUND_MS_SLOW)


def _clock_difference(space: Space, began_s: float) -> CheckResult:
    """Compare the clock with the node's, by the time in the node's status object of this client.

    The node sent it after `began_s` and before now. Within that period the clocks may be equal, so
    only what the time is outside of it is a difference.
    """
    with space.subscribe("DotsClient") as events:
        for event in iter(lambda: events.get(timeout=2.0), None):
            if event.object.id == space.client_id and event.header.server_sent_time > 0:
                node_s, now_s = event.header.server_sent_time, time()
                break
        else:
            return passed("clocks", "the node does not send its time")
    difference_s = max(began_s - node_s, node_s - now_s, 0.0)
    if difference_s == 0.0:
        return passed("clocks", f"equal to the node's, within {(now_s - began_s) * 1e3:.0f} ms")
    order = "behind" if node_s < began_s else "ahead of"
    facts = f"that of the node is at least {difference_s:.3g} s {order} this one"
    advice = "synchronise both clocks: ages of objects are wrong by this difference"
    return judged("clocks", facts, advice, is_well=difference_s <= _CLOCK_S_MAX)


def _socket(path: Path) -> CheckResult:
    """Whether a node accepts connections at the default Unix socket."""
    if not path.is_socket():
        return passed("default socket", f"{path} is free")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_ANSWER_S_MAX)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            facts = f"{path} exists, but no node answers: {error.strerror or error}"
            advice = "a node that was killed left it behind; the next node replaces it"
            return warning("default socket", facts, advice)
    return passed("default socket", f"{path}: a node answers")


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
                advice = "allow this user to listen there, or choose another endpoint with --listen"
                return warning(check, facts, advice)
        else:
            return passed(check, f"free, for {purpose}")
    user = port_user(port)
    facts = f"for {purpose}: used by {user or 'a program of another user'}"
    advice = "a node would skip this port; choose another endpoint with --listen"
    return judged(check, facts, advice, is_well=user is not None and "skerry" in user)


def port_user(port: int, proc: Path = _PROC) -> str | None:
    """Process id and command line of the program that listens at a TCP port; None if not known."""
    inodes = {f"socket:[{inode}]" for inode in _listening(port, proc)}
    if not inodes:
        return None
    for process in proc.iterdir():
        if process.name.isdigit() and _has_any(process, inodes):
            return f"process {process.name} ({_command(process)})"
    return None


def _listening(port: int, proc: Path) -> Iterator[str]:
    """Inodes of the sockets that listen at a port."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (proc / "net" / name).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            words = line.split()
            # Word 1 is the address with the port in hexadecimal digits, 3 the state, 9 the inode.
            if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                yield words[9]


def _has_any(process: Path, sockets: set[str]) -> bool:
    try:
        return any(_target(file) in sockets for file in (process / "fd").iterdir())
    except OSError:
        return False  # It belongs to another user, or has ended.


def _target(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""


def _command(process: Path) -> str:
    try:
        words = (process / "cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return "ended"
    return words.decode(errors="replace").strip()[:_WORD_CHAR_COUNT_MAX]
