"""What pure code tells about itself: trace events, and who listens.

A machine never logs. It emits small values, which `observe` turns into log lines and counters,
and which the simulator writes down, one JSON line each.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from skerry.json_values import plain

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["NO_TRACE", "DatagramDropped", "DropReason", "TraceEvent", "Tracer", "trace_line"]


class DropReason(enum.Enum):
    """Why a datagram was dropped: multicast has strangers on it, so that is counted, not fatal."""

    MALFORMED = "malformed"
    """The bytes are not a message of this protocol."""
    DUPLICATE = "duplicate"
    """It was here before."""
    STRANGER = "stranger"
    """It is from nobody this machine talks to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """Something happened inside a machine at `now_ns` of its own clock."""

    now_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatagramDropped(TraceEvent):
    """A datagram was not accepted."""

    source: str
    reason: DropReason


class Tracer(Protocol):
    """Takes trace events; it must not call back into the machine."""

    def emit(self, event: TraceEvent) -> None: ...


class _NoTrace:
    def emit(self, event: TraceEvent) -> None:
        return None


NO_TRACE: Tracer = _NoTrace()
"""For machines nobody watches."""


def trace_line(event: DataclassInstance, **facts: object) -> str:
    """The event as one line of JSON; the same event gives the same bytes in every process."""
    fields = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
    row = {"event": type(event).__name__, **fields, **facts}
    return json.dumps(row, default=plain, sort_keys=True, separators=(",", ":"))
