"""The parameters of a distributor connection: those of the protocol, and those of the client."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from skerry.errors import ConfigError
from skerry.protocol.distributor.config import DistributorConfig
from skerry.suggestions import nearest

Delivery = Literal["thread", "inline"]
"""Which thread calls callbacks: one of the subscriber, or the one that reads the socket."""

OnSlow = Literal["drop-oldest", "block", "disconnect"]
"""What happens when too many updates wait for a subscriber."""

_MANAGEMENT_INTERVAL_MS_MAX = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(DistributorConfig):
    """All parameters of a connection."""

    delivery: Delivery = "thread"
    """Default of the parameter `delivery` of a subscriber."""
    on_slow: OnSlow = "drop-oldest"
    """Default of the parameter `on_slow` of a subscriber."""
    hears_own: bool = True
    """Whether this connection's own updates are delivered to its subscribers."""
    trains: bool = True
    """Send and receive many datagrams in one system call, if the kernel supports it."""
    management_group: str = ""
    """Group and port to which overviews are sent; the Java program uses 224.42.42.100:4242. Empty
    for no overviews."""
    management_interval_ms: int = 10_000
    """Interval of the overviews."""
    management_listen: str = ""
    """Address and port of a page with the statistics as JSON, 127.0.0.1:8888 for example; port 0
    for any free port. Empty for no page."""

    def __post_init__(self) -> None:
        DistributorConfig.__post_init__(self)
        _check_choice("delivery", self.delivery, get_args(Delivery))
        _check_choice("on_slow", self.on_slow, get_args(OnSlow))
        if not 1 <= self.management_interval_ms <= _MANAGEMENT_INTERVAL_MS_MAX:
            raise ConfigError(
                key="distributor.management_interval_ms",
                origin="given",
                detail=f"{self.management_interval_ms} is not between 1 and an hour",
            )
        if self.read_thread_count != 1:
            raise ConfigError(
                key="distributor.read_thread_count",
                origin="given",
                detail="only one thread can read from a socket",
            )


def with_fields(config: Config | None, given: dict[str, Any]) -> Config:
    """The configuration with some fields replaced; raises ConfigError for an unknown field."""
    names = [field.name for field in fields(Config)]
    for name in given:
        if name not in names:
            guess = nearest(name, names)
            raise ConfigError(
                key=f"distributor.{name}",
                origin="given",
                detail="there is no such parameter",
                hint=f"did you mean {guess}?" if guess else "see skerry.distributor.Config",
            )
    return replace(config or Config(), **given)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(
            key=f"distributor.{name}",
            origin="given",
            detail=f"{value!r} is not one of {', '.join(choices)}",
        )
