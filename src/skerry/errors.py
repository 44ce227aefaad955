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
      ProtocolError        the talk between programs
        LocalProtocolError   our caller broke the rules
        RemoteProtocolError  the peer did
      AccessError          a client and its node
        ConnectFailed  Disconnected  Refused
          ConnectRefused     the node rejects the client
      DeliveryError        updates on their way
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
      SimulationError      a simulated system broke a promise

An error carries its facts as attributes and builds its own message from them: what, which, how
many, what to do. `hint` is one more line of advice for people, shown by the command line.
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
    """Base of everything skerry raises on purpose."""

    hint: str | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # The subclasses build their message from keyword arguments, which the default way of
        # pickling an exception (call the class with `args`) would not give back.
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
    """Whether a problem forbids the use of a type or only deserves a look."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One fault in a type definition, and where it stands. Lines and columns count from 1."""

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
    """Type definitions that cannot be used; `problems` has all that were found."""

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        if isinstance(problems, str):
            problems = (Problem(message=problems),)
            super().__init__(problems[0].message)
        else:
            super().__init__("\n".join(str(problem) for problem in problems))
        self.problems: tuple[Problem, ...] = tuple(problems)
        self.hint = next((p.hint for p in self.problems if p.hint), None)


class SchemaSyntaxError(SchemaError):
    """The text is not in the type language."""


class SchemaCheckError(SchemaError):
    """The text parses, but a rule of the type language is broken."""


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
    """A value and its bytes do not agree."""


class EncodeError(CodecError):
    """A value that does not fit the field it was given to."""

    def __init__(self, *, type_name: str, field: str, detail: str) -> None:
        super().__init__(f"{type_name}.{field}: {detail}" if field else f"{type_name}: {detail}")
        self.type_name = type_name
        self.field = field
        self.detail = detail


class DecodeError(CodecError):
    """Bytes that are not an object of the type; `offset` is where that became clear."""

    def __init__(self, *, type_name: str, detail: str, field: str = "", offset: int = -1) -> None:
        where = f"{type_name}.{field}" if field else type_name
        at = f" at byte {offset}" if offset >= 0 else ""
        super().__init__(f"{where}: {detail}{at}")
        self.type_name = type_name
        self.field = field
        self.detail = detail
        self.offset = offset


# -- programs talking


class ProtocolError(SkerryError):
    """Two programs do not follow the same rules."""


class LocalProtocolError(ProtocolError):
    """Our own caller asked for something the protocol forbids now."""


class RemoteProtocolError(ProtocolError):
    """The peer broke the protocol; its connection ends."""

    def __init__(self, *, peer: object, message: str, detail: str) -> None:
        super().__init__(f"{peer} broke the protocol in {message}: {detail}")
        self.peer = peer
        self.message = message
        self.detail = detail


class AccessError(SkerryError):
    """A client and its node."""


class ConnectFailed(AccessError):
    """No connection could be made."""


class Disconnected(AccessError):
    """The connection is gone."""


class Refused(AccessError):
    """The node does not permit it."""


class ConnectRefused(ConnectFailed, Refused):
    """The node answered and rejected the client."""


class DeliveryError(SkerryError):
    """An update on its way."""


class DataLost(DeliveryError):
    """Updates are gone for good; the error names the range."""


class SlowConsumer(DeliveryError):
    """A subscriber did not keep up and was cut."""


class WouldBlock(DeliveryError):
    """A bounded buffer is full; try again, or slow down."""


class RequestError(SkerryError):
    """A request to another program."""


class NotRegistered(RequestError):
    """Nobody serves this request."""


class RequestTimedOut(RequestError):
    """No answer in time."""


class Detached(RequestError):
    """The node is cut off from its system."""


# -- everything else


class LimitExceeded(SkerryError):
    """A bound was reached."""

    def __init__(self, *, what: str, value: int, limit: int) -> None:
        super().__init__(f"{what} is {value}, the limit is {limit}")
        self.what = what
        self.value = value
        self.limit = limit


class ConfigError(SkerryError):
    """A configuration that cannot be used."""

    def __init__(self, *, key: str, origin: str, detail: str, hint: str | None = None) -> None:
        super().__init__(f"{key} ({origin}): {detail}")
        self.key = key
        self.origin = origin
        self.detail = detail
        self.hint = hint


class RecordingError(SkerryError):
    """Recorded traffic that cannot be read or written."""


class StorageError(SkerryError):
    """Stored objects that cannot be read or written."""


class PipelineError(SkerryError):
    """A Spark job or table."""


class ControlError(SkerryError):
    """Starting and stopping programs."""


class StartFailed(ControlError):
    """A program did not start."""


class StopTimedOut(ControlError):
    """A program did not stop in time."""


class SimulationError(SkerryError):
    """A checker of a simulated system found a broken promise."""

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
