"""Options of commands that are clients of a portal."""

from __future__ import annotations

import os
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from skerry.cli.parameters import Command, with_options

if TYPE_CHECKING:
    from skerry.protocol.portal.config import PortalClientConfig

_OPTIONS: Final = (
    click.option(
        "--cfg",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Configuration file of Goby's daemon, which says where its portal is. Its fields take"
        " precedence over those of section `portal`, and options over both.",
    ),
    click.option("--platform", metavar="NAME", help="Name of the vehicle. Default: that of Goby."),
    click.option(
        "--transport",
        type=click.Choice(["ipc", "tcp"]),
        help="Unix sockets of this computer, or TCP. Default: ipc.",
    ),
    click.option(
        "--socket-name",
        metavar="PATH",
        help="Path of the IPC sockets without their suffixes. Default: /tmp/goby_PLATFORM.",
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
_NAMES: Final = ("platform", "transport", "socket_name", "address", "tcp_port")


def portal_options(command: Command) -> Command:
    """Add the options that say where a portal is, as the argument `portal`."""

    @wraps(command)
    def collected(*, cfg: Path | None, **given: Any) -> Any:
        flags = {name: given.pop(name) for name in _NAMES}
        return command(portal=_client_config(cfg, flags), **given)

    return cast("Command", with_options(*_OPTIONS)(collected))


def _client_config(cfg: Path | None, flags: dict[str, Any]) -> PortalClientConfig:
    import dataclasses

    from skerry.apps.portal.config import PortalProgramConfig, goby_fields
    from skerry.cli.config import load_section
    from skerry.protocol.portal.config import PortalClientConfig, PortalConfig

    given: dict[str, tuple[str, object]] = {
        f"portal.{name}": found for name, found in goby_fields(cfg, os.environ).values.items()
    }
    for name, value in flags.items():
        if value is not None:
            given[f"portal.{name}"] = (f"--{name.replace('_', '-')}", value)
    config = load_section("portal", PortalProgramConfig, given).value
    common = {field.name: getattr(config, field.name) for field in dataclasses.fields(PortalConfig)}
    return PortalClientConfig(**common)
