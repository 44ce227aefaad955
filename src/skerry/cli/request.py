"""`skerry request`: send a request to another program, and print its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from skerry.cli.given_fields import given_fields
from skerry.cli.node_options import (
    NodeChoice,
    node_options,
    struct_class,
    type_argument,
    types_option,
)
from skerry.cli.output import current_output, json_option_of
from skerry.cli.parameters import FiniteFloat, as_wrong_value
from skerry.errors import DecodeError, RequestTimedOut, SkerryError


@click.command()
@type_argument()
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option(
    "--to",
    "handler",
    default="",
    metavar="NAME",
    help="Name under which the program serves. Default: the one without a name.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=FiniteFloat(min=0, min_open=True, max=86_400),
    default=7.0,
    metavar="S",
    help="Seconds to wait for the answer.",
)
@click.option(
    "--data", metavar="JSON", help="The fields as one JSON object, instead of FIELD=VALUE."
)
@types_option
@node_options
@json_option_of("Print the answer as one JSON object; null if the handler returned no object.")
def request(
    *,
    type_name: str,
    fields: tuple[str, ...],
    handler: str,
    timeout_s: float,
    data: str | None,
    types: Mapping[str, Any],
    choice: NodeChoice,
    as_json: bool,
) -> None:
    """Send a request to the program that serves a type, and print its answer.

    Values are written as for `skerry pub`. The exit code is 1 if no program serves the type, if the
    handler failed, or if no answer arrived in time: then the request may have been carried out or
    not.

    \b
    Examples:
      skerry request RouteRequest from=Skagen to=Kiel
      skerry request RouteRequest from=Skagen to=Kiel --to router --timeout 2 --json
      skerry request Backup --types service.dots
    """
    from skerry.json_values import visible
    from skerry.objects.json import from_json_values, to_json_values

    if data is not None and fields:
        raise click.UsageError("--data and FIELD=VALUE exclude each other")
    output = current_output()
    with choice.connect_or_fail("skerry-request", types=types) as space:
        cls = struct_class(space, type_name, types)
        with as_wrong_value("FIELD=VALUE" if data is None else "--data", DecodeError):
            if data is None:
                plain = given_fields(cls, fields, needs_key=False)
            else:
                plain = _parsed(type_name, data)
            obj = from_json_values(cls, plain)
        try:
            answer = space.request(obj, to=handler, timeout=timeout_s)
        except RequestTimedOut as error:
            # The node answers, so it is not the node that could not be reached.
            failed = SkerryError(str(error))
            failed.hint = "raise --timeout, or check the program that serves it"
            raise failed from error
    if answer is None:
        if as_json:
            output.line("null")
        else:
            output.note("done; the handler returned no object")
    elif as_json:
        output.json_line({**to_json_values(answer), "_type": answer.descriptor.name})
    else:
        output.line(visible(str(answer)))


def _parsed(type_name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DecodeError(type_name=type_name, detail=f"not JSON: {error}") from None
