"""Every exception of skerry, in one tree.

    SkerryError
      SchemaError          a type definition
        SchemaSyntaxError    the text does not parse
        SchemaCheckError     it parses, but breaks a rule
        SchemaMismatchError  two definitions of one name
        FilterError          a `where` that does not compile
      CodecError           bytes and objects
        EncodeError          a value that does not fit its field
        DecodeError          bytes that are not an object of the type
      ProtocolError        messages between programs
        LocalProtocolError   the caller violated the protocol
        RemoteProtocolError  the peer violated the protocol
      AccessError          a client and its node
        ConnectFailed  Disconnected  Refused
          ConnectRefused     the node rejects the client
      DeliveryError        delivery of updates
        DataLost  SlowConsumer  WouldBlock
      RequestError         requests and answers
        NotRegistered  RequestTimedOut  Detached
      LimitExceeded        a bound of `skerry.limits` or of a configuration
      ConfigError          a configuration that cannot be used
      RecordingError       recorded traffic
      StorageError         stored objects
      PipelineError        Spark jobs and tables
      ControlError         starting and stopping programs
        StartFailed  StopTimedOut
      Excluded             the system has excluded the node
      SimulationError      a checker of a simulated system failed

An error has its facts as attributes and builds its message from them: what failed, on which thing,
the limit, what to do. `hint` is a line of advice that the command line shows.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = [
    "AccessError",
    "CodecError",
    "ConfigError",
    "ConnectFailed",
    "ConnectRefused",
    "ControlError",
    "DataLost",
    "DecodeError",
    "DeliveryError",
    "Detached",
    "Disconnected",
    "EncodeError",
    "Excluded",
    "FilterError",
    "LimitExceeded",
    "LocalProtocolError",
    "NotRegistered",
    "PipelineError",
    "Problem",
    "ProtocolError",
    "RecordingError",
    "Refused",
    "RemoteProtocolError",
    "RequestError",
    "RequestTimedOut",
    "SchemaCheckError",
    "SchemaError",
    "SchemaMismatchError",
    "SchemaSyntaxError",
    "Severity",
    "SimulationError",
    "SkerryError",
    "SlowConsumer",
    "StartFailed",
    "StopTimedOut",
    "StorageError",
    "WouldBlock",
]


class SkerryError(Exception):
    """Base class of all errors that skerry raises."""

    hint: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # The subclasses build their message from keyword arguments. By default, an exception is
        # unpickled by calling the class with `args`, which would fail.
        return _restore_error, (type(self), self.args, self.__dict__)


def _restore_error(
    cls: type[SkerryError], args: tuple[Any, ...], state: dict[str, Any]
) -> SkerryError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


# -- types


class Severity(enum.Enum):
    """Whether a problem prevents the use of a type or is only a warning."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault in a type definition, with its position. Lines and columns count from 1."""

    message: str
    file: str = "<text>"
    line: int = 1
    column: int = 1
    text: str = ""
    """The offending piece of the source."""
    severity: Severity = Severity.ERROR
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.severity.value}: {self.message}"


class SchemaError(SkerryError):
    """Type definitions that cannot be used. `problems` lists all faults that were found."""

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        if isinstance(problems, str):
            problems = (Problem(message=problems),)
            super().__init__(problems[0].message)
        else:
            super().__init__("\n".join(str(problem) for problem in problems))
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.hint = next((p.hint for p in self.problems if p.hint), None)


class SchemaSyntaxError(SchemaError):
    """The text does not parse as the type language."""


class SchemaCheckError(SchemaError):
    """The text parses, but violates a rule of the type language."""


class SchemaMismatchError(SchemaError):
    """Two different definitions of one name."""

    def __init__(self, *, name: str, known: str, offered: str, difference: str) -> None:
        super().__init__(
            f"two definitions of {name}: {known} is known, {offered} was offered ({difference})"
        )
        self.name = name
        self.known = known
        self.offered = offered
        self.difference = difference
        self.hint = (
            f"compare them with `skerry types diff`, and give one of them another name than {name}"
        )


class FilterError(SchemaError):
    """A `where` that does not compile against its type."""


# -- bytes and objects


class CodecError(SkerryError):
    """A value cannot be encoded, or bytes cannot be decoded."""


class EncodeError(CodecError):
    """A value does not fit its field."""

    def __init__(self, *, type_name: str, field: str, detail: str) -> None:
        super().__init__(f"{type_name}.{field}: {detail}" if field else f"{type_name}: {detail}")
        self.type_name = type_name
        self.field = field
        self.detail = detail


class DecodeError(CodecError):
    """Bytes are not an object of the type. `offset` is the position of the fault."""

    def __init__(self, *, type_name: str, detail: str, field: str = "", offset: int = -1) -> None:
        where = f"{type_name}.{field}" if field else type_name
        at = f" at byte {offset}" if offset >= 0 else ""
        super().__init__(f"{where}: {detail}{at}")
        self.type_name = type_name
        self.field = field
        self.detail = detail
        self.offset = offset


# -- communication


class ProtocolError(SkerryError):
    """A program violated the protocol."""


class LocalProtocolError(ProtocolError):
    """The caller requested something that the protocol forbids in this state."""


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol. Its connection is closed."""

    def __init__(self, *, peer: object, message: str, detail: str) -> None:
        super().__init__(f"{peer} broke the protocol in {message}: {detail}")
        self.peer = peer
        self.message = message
        self.detail = detail


class AccessError(SkerryError):
    """Base class of errors between a client and its node."""


class ConnectFailed(AccessError):
    """The connection to the node could not be established."""


class Disconnected(AccessError):
    """The connection to the node was lost or closed."""


class Refused(AccessError):
    """The node rejected an action of the client."""


class ConnectRefused(ConnectFailed, Refused):
    """The node rejected the client during the handshake."""


class DeliveryError(SkerryError):
    """Base class of errors in the delivery of updates."""


class DataLost(DeliveryError):
    """Updates are lost for good. The error names the range."""


class SlowConsumer(DeliveryError):
    """A subscriber did not keep up and was disconnected."""


class WouldBlock(DeliveryError):
    """A bounded buffer is full. Retry later, or publish more slowly."""


class RequestError(SkerryError):
    """A request to another program failed."""


class NotRegistered(RequestError):
    """No handler is registered for this request."""


class RequestTimedOut(RequestError):
    """The request timed out without an answer."""


class Detached(RequestError):
    """The node is not connected to its system."""


# -- other errors


class LimitExceeded(SkerryError):
    """A bound was exceeded."""

    def __init__(self, *, what: str, value: int, limit: int) -> None:
        super().__init__(f"{what} is {value}, the limit is {limit}")
        self.what = what
        self.value = value
        self.limit = limit


class ConfigError(SkerryError):
    """The configuration cannot be used."""

    def __init__(self, *, key: str, detail: str, origin: str = "", hint: str | None = None) -> None:
        """Without `origin`, `skerry.config.load` adds where the values of the section are from."""
        super().__init__(f"{key} ({origin}): {detail}" if origin else f"{key}: {detail}")
        self.key = key
        self.origin = origin
        self.detail = detail
        self.hint = hint


class RecordingError(SkerryError):
    """A recording cannot be read or written."""


class StorageError(SkerryError):
    """Stored objects cannot be read or written."""


class PipelineError(SkerryError):
    """A Spark job failed, or a table cannot be used."""


class ControlError(SkerryError):
    """Base class of errors in starting and stopping programs."""


class StartFailed(ControlError):
    """A program did not start."""


class StopTimedOut(ControlError):
    """A program did not stop in time."""


class Excluded(SkerryError):
    """The system has excluded this node, which does not join it again by itself."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the system has excluded this node: {reason}")
        self.reason = reason
        self.hint = "start the node again; it joins with a new id"


class SimulationError(SkerryError):
    """A checker of a simulated system failed."""

    def __init__(
        self,
        *,
        scenario: str,
        seed: int,
        checker: str,
        detail: str,
        command: str | None = None,
        trace: Sequence[str] = (),
    ) -> None:
        super().__init__(f"{scenario} with seed {seed}: {checker}: {detail}")
        self.scenario = scenario
        self.seed = seed
        self.checker = checker
        self.detail = detail
        self.command = command or f"skerry sim run --scenario {scenario} --seed {seed} --trace"
        self.trace = tuple(trace)
        """The last events before the failure, one line each."""
        self.hint = f"repeat it with `{self.command}`"
