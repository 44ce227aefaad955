"""Configuration of Goby programs, in the text format of Protocol Buffers.

Fields are returned under the names of `PortalConfig`, so that they can replace its defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import text_format

from skerry.errors import ConfigError
from skerry.protocol.protobuf_tables import EnumTables, MessageTables, message_classes

ENVIRONMENT_VARIABLE: Final = "GOBY_INTERPROCESS"
"""Holds the configuration of the portal for all programs."""

_ENUMS: Final[EnumTables] = {"Transport": {"IPC": 2, "TCP": 3}}
_MESSAGES: Final[MessageTables] = {
    "InterProcessPortalConfig": (
        *("1 string platform", "2 Transport transport", "3 string socket_name"),
        *("4 string ipv4_address", "5 uint32 tcp_port", "6 uint32 send_queue_size"),
        *("7 uint32 receive_queue_size", "8 uint32 zeromq_number_io_threads"),
        *("10 uint32 manager_timeout_seconds", "11 string ip_address", "20 string client_name"),
    ),
    "AppConfig": ("1 string name",),
    "InterProcessManagerHold": ("1 string* required_client",),
    "GobyDaemonConfig": (
        *("1 AppConfig app", "2 int32 router_threads"),
        *("3 InterProcessPortalConfig interprocess", "10 InterProcessManagerHold hold"),
    ),
    # What the configurations of all programs have. Their other fields have any names and types.
    "ProgramConfig": ("1 AppConfig app", "3 InterProcessPortalConfig interprocess"),
}
_CLASSES: Final = message_classes("skerry.goby_config", _MESSAGES, _ENUMS, syntax="proto2")
_SAME_NAMES: Final = (
    *("platform", "socket_name", "tcp_port", "send_queue_size", "receive_queue_size"),
    "client_name",
)
_TRANSPORTS: Final = {2: "ipc", 3: "tcp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GobyProgramSettings:
    """What the configuration of a program says about its portal."""

    interprocess: dict[str, Any]
    """The configured fields of the portal, by their names in PortalConfig."""
    name: str = ""
    """Name of the program; empty if it is not configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GobyDaemonSettings(GobyProgramSettings):
    """The same of a daemon, which has the portal."""

    router_threads: int | None = None
    required_clients: tuple[str, ...] = ()
    ignored: str = ""
    """The first part that is not supported and ignored, as an error message; empty if none is."""


def read_interprocess(text: str, *, origin: str) -> dict[str, Any]:
    """The configured fields of an InterProcessPortalConfig. Raises ConfigError."""
    return _fields(_strict("InterProcessPortalConfig", text, origin))


def read_daemon_config(text: str, *, origin: str) -> GobyDaemonSettings:
    """The configuration of a daemon. Raises ConfigError.

    Other parts than those about the portal, such as `intervehicle`, are ignored.
    """
    ignored = ""
    try:
        found = _parsed("GobyDaemonConfig", text)
    except text_format.ParseError as error:
        ignored = str(error)
        found = _partial("GobyDaemonConfig", text, origin)
    return GobyDaemonSettings(
        interprocess=_fields(found.interprocess),
        name=found.app.name,
        router_threads=found.router_threads if found.HasField("router_threads") else None,
        required_clients=tuple(found.hold.required_client),
        ignored=ignored,
    )


def read_program_config(text: str, *, origin: str) -> GobyProgramSettings:
    """The configuration of any other program, whose own fields are ignored. Raises ConfigError."""
    found = _partial("ProgramConfig", text, origin)
    return GobyProgramSettings(interprocess=_fields(found.interprocess), name=found.app.name)


def _fields(found: Any) -> dict[str, Any]:
    fields = {name: getattr(found, name) for name in _SAME_NAMES if found.HasField(name)}
    if found.HasField("transport"):
        fields["transport"] = _TRANSPORTS[found.transport]
    for name in ("ipv4_address", "ip_address"):
        if found.HasField(name):
            fields["address"] = getattr(found, name)
    if found.HasField("zeromq_number_io_threads"):
        fields["io_threads"] = found.zeromq_number_io_threads
    if found.HasField("manager_timeout_seconds"):
        fields["manager_timeout_s"] = float(found.manager_timeout_seconds)
    return fields


def _partial(name: str, text: str, origin: str) -> Any:
    try:
        return _parsed(name, text, allow_unknown_field=True)
    except text_format.ParseError as error:
        raise _invalid(name, error, origin) from None


def _strict(name: str, text: str, origin: str) -> Any:
    try:
        return _parsed(name, text)
    except text_format.ParseError as error:
        raise _invalid(name, error, origin) from None


def _parsed(name: str, text: str, *, allow_unknown_field: bool = False) -> Any:
    try:
        return text_format.Parse(text, _CLASSES[name](), allow_unknown_field=allow_unknown_field)
    except RecursionError:
        raise text_format.ParseError("it is nested too deeply") from None


def _invalid(name: str, error: Exception, origin: str) -> ConfigError:
    return ConfigError(
        key=name,
        origin=origin,
        detail=f"it is not in the text format of Protocol Buffers: {error}",
    )
