"""Section `portal` of the configuration, and what Goby's own configuration says about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skerry.apps.node.config import LogConfig, split_host_port
from skerry.apps.portal.mapping_config import PortalMappingConfig
from skerry.errors import ConfigError
from skerry.limits import CONFIG_BYTES_MAX
from skerry.protocol.portal.goby_config import (
    ENVIRONMENT_VARIABLE,
    GobyDaemonSettings,
    read_daemon_config,
    read_interprocess,
)
from skerry.runtime.portal.broker_config import PortalBrokerConfig
from skerry.runtime.whole_files import read_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalProgramConfig(PortalBrokerConfig):
    """Section `portal`: a portal without a node."""

    mapping: PortalMappingConfig = field(default_factory=PortalMappingConfig)
    metrics: str = "off"
    """HOST:PORT of the pages for metrics and health, or `off`."""
    log: LogConfig = field(default_factory=LogConfig)

    def __post_init__(self) -> None:
        PortalBrokerConfig.__post_init__(self)
        if self.metrics != "off":
            split_host_port(self.metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class GobyFields:
    """Fields of PortalBrokerConfig that Goby's configuration gives, with their origins."""

    values: dict[str, tuple[str, Any]]
    ignored: str = ""
    """What of a file is not supported and ignored; empty if nothing is."""


def goby_fields(file: Path | None, environ: Mapping[str, str]) -> GobyFields:
    """The fields of a file of Goby's daemon; GOBY_INTERPROCESS gives those that it leaves out.

    Raises ConfigError for invalid text, OSError for a file that cannot be read.
    """
    values: dict[str, tuple[str, Any]] = {}
    ignored = ""
    text = environ.get(ENVIRONMENT_VARIABLE, "")
    if text:
        origin = f"environment {ENVIRONMENT_VARIABLE}"
        values |= {
            name: (origin, value) for name, value in _broker_fields(text, origin=origin).items()
        }
    if file is not None:
        origin = f"file {file}"
        settings = read_goby_file(file)
        ignored = settings.ignored
        found = _without_client_fields(settings.interprocess)
        if settings.name:
            found["name"] = settings.name
        if settings.router_threads is not None:
            found["io_threads"] = settings.router_threads
        if settings.required_clients:
            found["required_clients"] = settings.required_clients
        # Goby's daemon listens at all addresses.
        found.setdefault("listen", "*")
        values |= {name: (origin, value) for name, value in found.items()}
    return GobyFields(values=values, ignored=ignored)


def read_goby_file(file: Path) -> GobyDaemonSettings:
    """The configuration in a file of Goby's daemon. Raises ConfigError or OSError."""
    origin = f"file {file}"
    try:
        text = read_whole(file, bytes_max=CONFIG_BYTES_MAX).decode()
    except UnicodeDecodeError:
        raise ConfigError(key="GobyDaemonConfig", origin=origin, detail="it is not UTF-8") from None
    return read_daemon_config(text, origin=origin)


def _broker_fields(text: str, *, origin: str) -> dict[str, Any]:
    return _without_client_fields(read_interprocess(text, origin=origin))


def _without_client_fields(found: dict[str, Any]) -> dict[str, Any]:
    """Without the fields that are about clients of a portal only."""
    for name in ("client_name", "manager_timeout_s", "io_threads"):
        found.pop(name, None)
    return found
