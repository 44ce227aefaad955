"""What a command subscribes to: a type or a subject pattern, with warnings about likely mistakes.

Also the loop that waits for events, and the reports about the connection.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.node_options import struct_class
from skerry.cli.output import Output
from skerry.cli.parameters import WrongValue, as_wrong_value
from skerry.cli.stopping import Stop
from skerry.errors import Disconnected, Refused
from skerry.protocol.patterns import check_pattern, foreign_wildcard, meant_pattern
from skerry.schema.internal import internal_types
from skerry.suggestions import nearest

if TYPE_CHECKING:
    from skerry.client.api.sync import Space, Subscription
    from skerry.client.core.events import Event
    from skerry.client.core.states import Refusal

_WAIT_S: Final = 0.1
"""Interval at which a stop request is polled while no event arrives."""
_TYPE_NAME: Final = re.compile(r"[\w:]+")
_WILD: Final = re.compile(r"/(\*|\.\.\.|…)")


def is_subject(text: str, output: Output) -> bool:
    """Whether a TYPE|SUBJECT is a subject pattern. Checks it, and warns about wild cards of other
    systems, which match only themselves."""
    if not text.startswith("/"):
        if _TYPE_NAME.fullmatch(text) is None:
            hint = f"did you mean '{meant_pattern(text)}'?" if text.strip() else None
            message = f"{text!r:.80} is not a type name; a subject begins with /"
            raise WrongValue(message, option="TYPE|SUBJECT", hint=hint)
        return False
    with as_wrong_value("TYPE|SUBJECT"):
        check_pattern(text)
    strange = foreign_wildcard(text)
    if strange is not None:
        level, meant = strange
        output.warning(
            f"the level {level} is no wild card and matches only itself: * matches one level,"
            f" ... all remaining ones; did you mean '{meant}'?"
        )
    return True


def followed_type(
    space: Space, name: str, types: Mapping[str, Any], output: Output, *, needs_type: bool = False
) -> Any:
    """The class of a type, or its name, with a warning, if the node does not know it yet."""
    known = {} if types else space.request_types()
    if types or needs_type or name in known or name in internal_types():
        return struct_class(space, name, types)
    guess = nearest(name, known)
    advice = f" (did you mean {guess}?)" if guess else ""
    output.warning(
        f"the node does not know {name} yet{advice}; waiting for its first object until Ctrl-C"
    )
    return name


@contextmanager
def without_repetition() -> Iterator[None]:
    """Subscribe in the body: the warning of the library about a pattern was printed already."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def hides(text: str, event: Event[Any]) -> bool:
    """Whether an event is about a status object of the node, which only a type or a subject without
    a leading wild card selects."""
    from skerry.client.core.received_types import BYTES_NAME

    name = event.type_name
    return name in internal_types() and name != BYTES_NAME and _WILD.match(text) is not None


def check_filter_use(text: str, where: str | None, fields: str | None) -> None:
    """Raise UsageError for `--where` or `--fields` with a subject."""
    if text.startswith("/") and (where or fields):
        raise click.UsageError("--where and --fields need a type, not a subject")


def follow(
    space: Space,
    events: Subscription[Any],
    stop: Stop,
    refusals: list[Refusal],
    *,
    take: Callable[[Event[Any]], None],
    is_over: Callable[[], bool],
) -> None:
    """Pass events to `take` until `is_over` or a stop request."""
    while not stop.is_requested and not is_over():
        event = None if refusals else events.get(timeout=_WAIT_S)
        if event is not None:
            take(event)
        else:
            check_flow(space, refusals)


def check_flow(space: Space, refusals: list[Refusal]) -> None:
    """Raise the reason if no event of the only subscription of a space can arrive."""
    if refusals:
        raise Refused(f"the node does not permit {refusals[0]}")
    if space.state == "closed":
        raise Disconnected(space.wait_closed() or "the node closed the connection")


def report_states(space: Space, output: Output) -> list[Refusal]:
    """Report lost and restored connections on stderr; returns the list that collects refusals."""
    from skerry.client.core.states import SpaceState, StateChanged

    def report(change: StateChanged) -> None:
        if change.state is SpaceState.DISCONNECTED:
            output.note(f"connection lost ({change.reason}); reconnecting")
        elif change.state is SpaceState.CONNECTED:
            output.note("reconnected")

    space.on_state(report)
    refusals: list[Refusal] = []
    space.on_refused(refusals.append)
    return refusals
