"""Parameters of the broker of a portal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry.protocol.portal.config import CLIENT_NAME_CHAR_COUNT_MAX, PortalConfig

REQUIRED_CLIENT_COUNT_MAX: Final = 1000
"""Clients that the hold may require, each with a name. A vehicle has some dozens of programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalBrokerConfig(PortalConfig):
    """A portal: the broker of Goby programs."""

    name: str = "gobyd"
    """Name of the broker as a program of Goby: in answers about health, and as target of requests
    to terminate."""
    required_clients: tuple[str, ...] = ()
    """Clients that must be ready before any client publishes. Empty for no wait."""
    listen: str = "127.0.0.1"
    """Address at which TCP sockets listen; `*` for all."""
    publish_port: int = 0
    """TCP port for publications; 0 for the one of the last run, or a free one."""
    subscribe_port: int = 0
    """TCP port for subscribers; 0 for the one of the last run, or a free one."""
    filter: bool = False
    """Check each publication in Python, and drop those that would end Goby programs."""

    def __post_init__(self) -> None:
        PortalConfig.__post_init__(self)
        if not self.name or len(self.name) > CLIENT_NAME_CHAR_COUNT_MAX:
            raise ValueError(f"name is not 1 to {CLIENT_NAME_CHAR_COUNT_MAX} characters")
        if len(self.required_clients) > REQUIRED_CLIENT_COUNT_MAX:
            count, limit = len(self.required_clients), REQUIRED_CLIENT_COUNT_MAX
            raise ValueError(f"required_clients has {count} names, the limit is {limit}")
        if "" in self.required_clients:
            raise ValueError("required_clients contains an empty name")
        if not self.listen or set(self.listen) & set("/ \0"):
            raise ValueError(f"listen {self.listen!r} is not an address, or *")
        for name in ("publish_port", "subscribe_port"):
            if not 0 <= getattr(self, name) <= 65535:
                raise ValueError(f"{name} is {getattr(self, name)}, not 0 to 65535")
