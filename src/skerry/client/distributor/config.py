"""How a connection of the distributor is set up: the parameters of the protocol, and our own."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from skerry.errors import ConfigError
from skerry.protocol.distributor.config import DistributorConfig
from skerry.suggestions import nearest

__all__ = ["Config", "Delivery", "OnSlow", "with_fields"]

Delivery = Literal["thread", "inline"]
"""Who calls back: a thread of the subscriber, or at once whoever reads from the socket."""

OnSlow = Literal["drop-oldest", "block", "disconnect"]
"""What happens when more updates wait for a subscriber than may."""

_MANAGEMENT_INTERVAL_MS_MAX = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(DistributorConfig):
    """All parameters of a connection."""

    delivery: Delivery = "thread"
    """Who calls the callbacks of a subscriber, unless it says otherwise itself."""
    on_slow: OnSlow = "drop-oldest"
    """What becomes of a subscriber that does not keep up, unless it says otherwise itself."""
    hears_own: bool = True
    """Whether what this connection publishes comes back to its own subscribers."""
    trains: bool = True
    """Let the kernel send and receive many datagrams in one call, where it can."""
    management_group: str = ""
    """Group and port to tell of this connection; 224.42.42.100:4242 is where the Java program
    does. Empty for not telling."""
    management_interval_ms: int = 10_000
    """How often."""
    management_listen: str = ""
    """Address and port of a page with the statistics as JSON, 127.0.0.1:8888 for example; port 0
    for any that is free. Empty for none."""

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
                detail="one thread reads from a socket; more would only wait for each other",
            )


def with_fields(config: Config | None, given: dict[str, Any]) -> Config:
    """The configuration with some of its fields replaced; ConfigError for what is none of them."""
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
