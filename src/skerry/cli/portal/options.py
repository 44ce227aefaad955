"""Options of commands that are clients of a portal."""

from __future__ import annotations

import functools
import os
from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

import click

from skerry.cli.parameters import Command, WrongValue, with_options
from skerry.errors import ConnectFailed, RequestTimedOut, SkerryError

if TYPE_CHECKING:
    from skerry.client.portal.sync import PortalConnection
    from skerry.protocol.portal.config import PortalClientConfig

_WAIT_S = 10.0
"""How long a command waits for the portal to release its hold."""

_OPTIONS = (
    click.option("--platform", metavar="NAME", help="Name of the vehicle. Default: that of Goby."),
    click.option(
        "--transport",
        type=click.Choice(["ipc", "tcp"]),
        help="Unix sockets of this computer, or TCP. Default: ipc.",
    ),
    click.option(
        "--socket-name",
        metavar="PATH",
        help="Path of the IPC sockets without their suffixes. Default: that of Goby.",
    ),
    click.option(
        "--address", metavar="HOST", help="Host of the portal, for TCP. Default: 127.0.0.1."
    ),
    click.option(
        "--tcp-port",
        type=click.IntRange(1, 65535),
        metavar="N",
        help="TCP port of the manager. Default: 11144.",
    ),
)


def portal_options(command: Command) -> Command:
    """Add the options that name a portal, as the argument `chosen`: fields of PortalConfig."""
    names = ("platform", "transport", "socket_name", "address", "tcp_port")

    @functools.wraps(command)
    def collected(**given: Any) -> Any:
        chosen = {name: value for name in names if (value := given.pop(name)) is not None}
        return command(chosen=chosen, **given)

    return cast("Command", with_options(*_OPTIONS)(collected))


def client_config(chosen: dict[str, Any]) -> PortalClientConfig:
    """The portal that `portal_options` names; GOBY_INTERPROCESS gives what `chosen` does not.

    Raises SkerryError if a package for portals is missing.
    """
    from skerry.protocol.portal.config import PortalClientConfig
    from skerry.protocol.portal.goby_config import ENVIRONMENT_VARIABLE, read_interprocess

    try:
        import zmq  # noqa: F401 - only whether it is there
    except ImportError as error:
        missing = SkerryError(f"portals need a package that is not installed: {error.name}")
        missing.hint = "install skerry[portal]"
        raise missing from error
    known = {field.name for field in fields(PortalClientConfig)} - {"client_name"}
    text = os.environ.get(ENVIRONMENT_VARIABLE, "")
    found = read_interprocess(text, origin=f"environment {ENVIRONMENT_VARIABLE}")
    settings = {key: value for key, value in found.items() if key in known} | chosen
    try:
        return PortalClientConfig(**settings)
    except ValueError as error:
        raise WrongValue(str(error), option="--socket-name") from error


def connect_or_fail(name: str, chosen: dict[str, Any]) -> PortalConnection:
    """Connect, and wait until the hold is released; ConnectFailed if it is not in time."""
    config = client_config(chosen)
    from skerry.client.portal.sync import open_portal

    connection = open_portal(name, config=config)
    connection.ready()
    try:
        connection.wait_open(_WAIT_S)
    except RequestTimedOut as error:
        connection.close()
        raise unusable(config, error) from error
    return connection


def unusable(config: PortalClientConfig, error: RequestTimedOut) -> ConnectFailed:
    """The error of a portal whose hold was not released in time."""
    failure = ConnectFailed(f"the portal at {config.manager} cannot be used: {error}")
    failure.hint = "start one with `skerry portal run`, or start the clients that it requires"
    return failure
