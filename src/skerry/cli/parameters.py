"""Parameter types of options beyond those of click, and errors about invalid values.

An invalid value is a usage error even if it is found only after the node has sent its types: exit
code 2, with the name of the option and the accepted values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from skerry.errors import ConfigError, FilterError, SkerryError

_STORAGES: Final = re.compile(r"none|sqlite:.+|postgres(ql)?://.*", re.DOTALL)

Command = TypeVar("Command", bound=Callable[..., Any])


def with_options(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """A decorator that adds several options to a command, in this order in its help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def count_option(what: str) -> Callable[[Command], Command]:
    """Add `--count` to a command: the number of events or the like after which it ends."""
    text = f"End after N {what}. Default: no limit."
    return click.option("-c", "--count", type=click.IntRange(min=1), metavar="N", help=text)


def format_option(default: str) -> Callable[[Command], Command]:
    """Add `--format` to a command, as its argument `line_format`."""
    return click.option(
        "-f",
        "--format",
        "line_format",
        metavar="TEXT",
        help="Line to print, with values in braces, such as '{_time} {mmsi} {lat:.2f}'. Default: "
        + default,
    )


class FiniteFloat(click.FloatRange):
    """A finite number: `nan` would pass every comparison with a bound, `inf` is not a duration."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class Instant(click.ParamType[int]):
    """A time, converted to nanoseconds since the epoch."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from skerry.spark.instants import instant_ns

        try:
            return instant_ns(value)
        except SkerryError as error:
            self.fail(f"{error}; {error.hint}", param, ctx)


class WrongValue(click.BadParameter):
    """An invalid value of an option or argument, with a hint."""

    def __init__(self, message: str, *, option: str, hint: str | None = None) -> None:
        context = click.get_current_context(silent=True)
        super().__init__(message, ctx=context, param_hint=f"'{option}'")
        self.hint = hint


class CheckedText(click.ParamType[str]):
    """A text that is accepted unchanged if a check does not raise."""

    name = "text"

    def __init__(self, check: Callable[[str], object]) -> None:
        """`check` raises SkerryError for an invalid text."""
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        with as_wrong_value(_name_of(param)):
            self._check(value)
        return str(value)


@contextmanager
def as_wrong_value(option: str, kind: type[SkerryError] = SkerryError) -> Iterator[None]:
    """Turn errors of this kind into WrongValue for an option."""
    try:
        yield
    except kind as error:
        raise WrongValue(_message(error), option=option, hint=error.hint) from error


def check_endpoint(text: str) -> None:
    """Raise SkerryError unless `text` is an endpoint; the host may be `*`."""
    from skerry.runtime.streams.endpoints import parse_endpoint

    parse_endpoint(text.replace("*", "any"))


def check_condition(text: str) -> None:
    """Raise FilterError unless `text` is a condition. Field names are checked later."""
    from skerry.protocol.access.where.parser import parse

    parse(text)


def check_group(text: str) -> None:
    """Raise SkerryError unless `text` is the address and port of a multicast group."""
    from skerry.runtime.udp.interfaces import parse_group

    parse_group(text)


def check_host_port(text: str, *others: str) -> None:
    """Raise SkerryError, which names the `others`, unless `text` is HOST:PORT."""
    from skerry.apps.node.config import split_host_port

    try:
        split_host_port(text)
    except ValueError as error:
        raise SkerryError(", ".join([str(error), *others])) from None


def check_metrics(text: str) -> None:
    """Raise SkerryError unless `text` is HOST:PORT or `off`."""
    if text != "off":
        check_host_port(text, "or off")


def check_seed(text: str) -> None:
    """Check HOST or HOST:PORT of another node."""
    from skerry.apps.node.peers import parse_seed

    parse_seed(text, port=1)


def check_storage(text: str) -> None:
    """Raise SkerryError unless `text` names a known kind of storage."""
    if _STORAGES.fullmatch(text) is None:
        # The rest of the text may contain a password.
        error = SkerryError(f"unknown kind of storage {text.partition(':')[0]!r:.60}")
        error.hint = "write sqlite:PATH, postgresql://user@host/database, or none"
        raise error


def field_names(text: str | None) -> list[str] | None:
    """Split the value of `--fields`; None if it is not given."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        hint = "separate field names by commas: A,B"
        raise WrongValue(f"a field name is empty in {text!r:.60}", option="--fields", hint=hint)
    return names


def _name_of(param: click.Parameter | None) -> str:
    """The parameter as written on the command line: `--node`, or the metavar of an argument."""
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return "value" if param is None else param.human_readable_name


def _message(error: SkerryError) -> str:
    if isinstance(error, ConfigError):
        return error.detail
    if isinstance(error, FilterError):
        return "; ".join(f"{p.message} (at {p.column})" for p in error.problems)
    return str(error)
