"""Kinds of values that options take, beyond those of click, and what is said of wrong ones.

A value that cannot be used is a wrong command line, also where that is found only when the node
has told what its types are: exit code 2, with the name of the option and what it takes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from skerry.errors import ConfigError, FilterError, SkerryError

__all__ = [
    "CheckedText",
    "FiniteFloat",
    "WrongValue",
    "blamed_on",
    "check_condition",
    "check_endpoint",
    "check_group",
    "check_metrics",
    "check_pattern",
    "check_storage",
    "check_subject",
    "field_names",
]

_STORAGES: Final = re.compile(r"none|sqlite:.+|postgres(ql)?://.*", re.DOTALL)


class FiniteFloat(click.FloatRange):
    """A number, which neither `nan` (it passes every comparison with a bound) nor `inf` is."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number to count with.", param, ctx)
        return number


class WrongValue(click.BadParameter):
    """A value of an option or argument that cannot be used, with a hint what can."""

    def __init__(self, message: str, *, option: str, hint: str | None = None) -> None:
        context = click.get_current_context(silent=True)
        super().__init__(message, ctx=context, param_hint=f"'{option}'")
        self.hint = hint


class CheckedText(click.ParamType[str]):
    """A text that stays as it is, if a check finds nothing wrong with it."""

    name = "text"

    def __init__(self, check: Callable[[str], object]) -> None:
        """What is wrong the check says by a SkerryError."""
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        with blamed_on(_name_of(param)):
            self._check(value)
        return str(value)


@contextmanager
def blamed_on(option: str, kind: type[SkerryError] = SkerryError) -> Iterator[None]:
    """Inside, errors of this kind are the fault of the value of an option."""
    try:
        yield
    except kind as error:
        raise WrongValue(_complaint(error), option=option, hint=error.hint) from error


def check_endpoint(text: str) -> None:
    """See that it says where a node is; for whom a `*` stands is seen when that is needed."""
    from skerry.runtime.streams.endpoints import parse_endpoint

    parse_endpoint(text.replace("*", "any"))


def check_condition(text: str) -> None:
    """See that it is a condition, of whatever type."""
    from skerry.protocol.access.where.parser import parse

    parse(text)


def check_group(text: str) -> None:
    """See that it is the address and port of a multicast group."""
    from skerry.runtime.udp.interfaces import parse_group

    parse_group(text)


def check_metrics(text: str) -> None:
    """See that it is a place to serve metrics at, or `off`."""
    from skerry.apps.node.config import split_place

    if text == "off":
        return
    try:
        split_place(text)
    except ValueError as error:
        raise SkerryError(f"{error}, and not off") from None


def check_storage(text: str) -> None:
    """See that it names a kind of storage that there is."""
    if _STORAGES.fullmatch(text) is None:
        # What follows may have a password in it.
        error = SkerryError(f"there is no storage {text.partition(':')[0]!r:.60}")
        error.hint = "write sqlite:PATH, postgresql://user@host/database, or none"
        raise error


def check_subject(text: str) -> None:
    """See that something can be published under it."""
    from skerry.protocol import patterns

    patterns.check_subject(text)


def check_pattern(text: str) -> None:
    """See that it is a subject, or a pattern that selects some."""
    from skerry.protocol import patterns

    patterns.check_pattern(text)


def field_names(text: str | None) -> list[str] | None:
    """The names in the value of `--fields`; None without one."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        hint = "write names of fields with commas between them: A,B"
        raise WrongValue(f"a name is missing in {text!r:.60}", option="--fields", hint=hint)
    return names


def _name_of(param: click.Parameter | None) -> str:
    """As people write it: `--node`, or as it stands in the usage."""
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return "value" if param is None else param.human_readable_name


def _complaint(error: SkerryError) -> str:
    if isinstance(error, ConfigError):
        return error.detail
    if isinstance(error, FilterError):
        return "; ".join(f"{p.message} (at {p.column})" for p in error.problems)
    return str(error)
