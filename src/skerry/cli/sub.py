"""`skerry sub`: subscribe to a type or subject and print the events."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.node_options import (
    NodeChoice,
    check_filter,
    filter_options,
    node_options,
    struct_class,
    type_argument,
    types_option,
)
from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import as_wrong_value, count_option, field_names
from skerry.cli.stopping import Stop, stop_on_signals
from skerry.errors import Disconnected, Refused
from skerry.protocol.patterns import check_pattern
from skerry.schema.internal import internal_types

if TYPE_CHECKING:
    from skerry.client.api.sync import Space, Subscription
    from skerry.client.core.events import Event
    from skerry.client.core.states import Refusal

_WAIT_S: Final = 0.1
"""Interval at which a stop request is polled while no event arrives."""
_WILD: Final = re.compile(r"/(\*|\.\.\.|…)")


@click.command()
@type_argument(metavar="TYPE|SUBJECT")
@filter_options
@count_option("events")
@click.option("--new", is_flag=True, help="Omit the objects that exist already.")
@click.option(
    "--on-slow",
    type=click.Choice(["disconnect", "conflate"]),
    default="disconnect",
    help="If the command is too slow: end with an error, or skip to the last state of each object.",
)
@types_option
@node_options
@json_option
def sub(
    *,
    type_name: str,
    where: str | None,
    fields: str | None,
    count: int | None,
    new: bool,
    on_slow: Any,
    types: Mapping[str, Any],
    choice: NodeChoice,
    as_json: bool,
) -> None:
    """Subscribe to a type or a subject, and print current objects and all changes until Ctrl-C.

    A subject begins with a slash. In a pattern, * matches one level and ... matches all remaining
    levels. A pattern whose first level is a wildcard omits the status objects of the node. A lost
    connection is restored, and changes that were missed are printed then.

    With --json, each line has the fields of the whole object by name, and _operation (create,
    update or remove), _type, _key, _subject, _sender and _age_s.

    \b
    Examples:
      skerry sub Vessel
      skerry sub Vessel --where "lat > 50 and name like 'M%'" --fields lat,lon
      skerry sub Vessel --json --count 10
      skerry sub '/prices/*'
      skerry sub '/...' --new
    """
    from skerry.cli.rows import event_row, event_text
    from skerry.client.core.received_types import BYTES_NAME

    output = current_output()
    is_subject = type_name.startswith("/")
    if is_subject and (where or fields):
        raise click.UsageError("--where and --fields need a type, not a subject")
    if is_subject:
        with as_wrong_value("TYPE|SUBJECT"):
            check_pattern(type_name)
    names = field_names(fields)
    with stop_on_signals() as stop, choice.connect("skerry-sub", types=types) as space:
        refusals = _report_states(space, output)
        what: Any = type_name
        if not is_subject:
            what = _class_or_name(space, type_name, types, output, needs_type=bool(where or fields))
            if where or names:
                check_filter(what, where, names)
        with space.subscribe(what, where=where, fields=names, on_slow=on_slow) as subscription:
            has_internal = not _WILD.match(type_name)

            def show(event: Event[Any]) -> bool:
                """Print an event; returns False if it is omitted."""
                is_internal = event.type_name in internal_types() and event.type_name != BYTES_NAME
                if (is_internal and not has_internal) or (new and event.is_from_cache):
                    return False
                if as_json:
                    output.json_line(event_row(event))
                else:
                    output.line(event_text(event))
                return True

            _follow(space, subscription, stop, show, count, refusals)


def _class_or_name(
    space: Space, name: str, types: Mapping[str, Any], output: Output, *, needs_type: bool
) -> Any:
    """The class of a type, or its name if no object of it has been published yet."""
    if types or needs_type or name in space.request_types(name) or name in internal_types():
        return struct_class(space, name, types)
    if not name.isidentifier():
        raise click.UsageError(f"{name!r:.80} is not a type name; a subject begins with /")
    output.note(f"the node does not know {name} yet; waiting for the first object")
    return name


def _follow(
    space: Space,
    events: Subscription[Any],
    stop: Stop,
    show: Callable[[Event[Any]], bool],
    count: int | None,
    refusals: list[Refusal],
) -> None:
    shown = 0
    while not stop.is_requested and shown != count:
        if refusals:
            # The refusal concerns the only subscription: no event can arrive.
            raise Refused(f"the node does not permit {refusals[0]}")
        event = events.get(timeout=_WAIT_S)
        if event is not None:
            shown += show(event)
        elif space.state == "closed":
            raise Disconnected(space.wait_closed() or "the node closed the connection")


def _report_states(space: Space, output: Output) -> list[Refusal]:
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
