"""`skerry sub`: subscribe to a type or subject and print the events."""

from __future__ import annotations

from collections.abc import Mapping
from time import time
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.following import (
    check_filter_use,
    follow,
    followed_type,
    hides,
    is_subject,
    report_states,
    without_repetition,
)
from skerry.cli.node_options import (
    NodeChoice,
    check_filter,
    filter_options,
    node_options,
    type_argument,
    types_option,
)
from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import count_option, field_names, format_option
from skerry.cli.stopping import stop_on_signals

if TYPE_CHECKING:
    from skerry.client.core.events import Event


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
@format_option("the time, the operation and the object.")
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
    line_format: str | None,
    types: Mapping[str, Any],
    choice: NodeChoice,
    as_json: bool,
) -> None:
    """Subscribe to a type or a subject, and print current objects and all changes until Ctrl-C.

    A subject begins with a slash. In a pattern, * matches one level and ... matches all remaining
    levels. A pattern whose first level is a wildcard omits the status objects of the node. A lost
    connection is restored, and changes that were missed are printed then.

    Each line begins with the time at which the publisher sent the change, in the local time zone,
    with its date unless that is today.

    With --json, each line has the fields of the whole object by name, and _operation (create,
    update or remove), _type, _key, _subject, _sender, _time (seconds since the epoch) and _age_s.
    --format can use the same names, and _object (the object as text) and _data (the bytes of a
    subject as text); {_time} is then in ISO 8601. The parts of a structure are written as
    {place.lat}. An unset field is empty.

    \b
    Examples:
      skerry sub Vessel
      skerry sub Vessel --where "lat > 50 and name like 'M%'" --fields lat,lon
      skerry sub Vessel --json --count 10
      skerry sub Vessel --format '{_time} {_operation} {mmsi} {lat:.3f}'
      skerry sub '/prices/*'
      skerry sub '/...' --new
    """
    from skerry.cli.rows import RowFormat, event_row, event_text, format_row, time_text

    output = current_output()
    check_filter_use(type_name, where, fields)
    if as_json and line_format is not None:
        raise click.UsageError("--format and --json exclude each other")
    shape = None if line_format is None else RowFormat(line_format)
    with_subject = is_subject(type_name, output)
    names = field_names(fields)
    with stop_on_signals() as stop, choice.connect("skerry-sub", types=types) as space:
        refusals = report_states(space, output)
        what: Any = type_name
        if not with_subject:
            needs_type = bool(where or fields)
            what = followed_type(space, type_name, types, output, needs_type=needs_type)
            if where or names:
                check_filter(what, where, names)
            if shape is not None and isinstance(what, type):
                shape.check([field.name for field in what.descriptor.fields])  # type: ignore[attr-defined]
        shown = 0

        def show(event: Event[Any]) -> None:
            nonlocal shown
            if hides(type_name, event) or (new and event.is_from_cache):
                return
            shown += 1
            if as_json:
                output.json_line(event_row(event))
            elif shape is not None:
                output.line(shape.line(format_row(event)))
            else:
                output.line(f"{time_text(event.info.modified, time())} {event_text(event)}")

        with without_repetition():
            subscription = space.subscribe(what, where=where, fields=names, on_slow=on_slow)
        with subscription as events:
            follow(space, events, stop, refusals, take=show, is_over=lambda: shown == count)
