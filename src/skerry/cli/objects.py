"""`skerry pub`, `skerry sub`, `skerry get`: objects of a node, from the shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.stopping import stop_on_signals

if TYPE_CHECKING:
    from skerry.client.sync import Space
    from skerry.objects.typeset import TypeSet

__all__ = ["get", "pub", "sub"]

Command = TypeVar("Command", bound=Callable[..., Any])


def _node_options(command: Command) -> Command:
    command = click.option(
        "--types",
        "files",
        multiple=True,
        required=True,
        metavar="FILE",
        help="Type file that defines the type; several are fine.",
    )(command)
    return click.option(
        "--node", "endpoint", metavar="URI", help="Where the node is; else SKERRY_ENDPOINT, ..."
    )(command)


@click.command()
@click.argument("type_name", metavar="TYPE")
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--remove", is_flag=True, help="Remove the object instead.")
@_node_options
def pub(
    *,
    type_name: str,
    fields: tuple[str, ...],
    remove: bool,
    files: tuple[str, ...],
    endpoint: str | None,
) -> None:
    """Publish an object, or each line of JSON from the standard input.

    \b
    Examples:
      skerry pub Vessel mmsi=244660000 lat=52.1 --types fleet.dots
      skerry pub Vessel mmsi=244660000 --remove --types fleet.dots
      producer | skerry pub Vessel --types fleet.dots
    """
    types = _types(files)
    cls = _class(types, type_name)
    with _connect(endpoint, types, "skerry-pub") as space:
        send = space.remove if remove else space.publish
        if fields:
            send(cls.from_json(json.dumps(_plain(fields))))
        else:
            for line in sys.stdin:
                if line.strip():
                    send(cls.from_json(line))
        space.flush()


@click.command()
@click.argument("type_name", metavar="TYPE")
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="End after so many.")
@_node_options
@json_option
def sub(
    *,
    type_name: str,
    count: int | None,
    files: tuple[str, ...],
    endpoint: str | None,
    as_json: bool,
) -> None:
    """Follow the objects of a type: those that are there, and each change from then on.

    \b
    Examples:
      skerry sub Vessel --types fleet.dots
      skerry sub Vessel --json --count 10 --types fleet.dots
    """
    import queue

    output = current_output()
    types = _types(files)
    cls = _class(types, type_name)
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with stop_on_signals() as stop, _connect(endpoint, types, "skerry-sub") as space:
        space.subscribe(cls, events.put)
        left = count
        while not stop.is_requested and left != 0:
            try:
                event = events.get(timeout=0.1)
            except queue.Empty:
                continue
            _show(output, event.operation, event.object, as_json=as_json)
            left = None if left is None else left - 1


@click.command()
@click.argument("type_name", metavar="TYPE")
@_node_options
@json_option
def get(*, type_name: str, files: tuple[str, ...], endpoint: str | None, as_json: bool) -> None:
    """The current objects of a type.

    \b
    Example:
      skerry get Vessel --types fleet.dots
    """
    output = current_output()
    types = _types(files)
    cls = _class(types, type_name)
    with _connect(endpoint, types, "skerry-get") as space:
        for obj in space.container(cls).values():
            _show(output, None, obj, as_json=as_json)


def _types(files: tuple[str, ...]) -> TypeSet:
    from skerry.runtime.typefiles import load_types

    return load_types(*files)


def _class(types: TypeSet, name: str) -> Any:
    cls = types.get(name)
    if cls is None or not hasattr(cls, "encode"):
        raise click.UsageError(f"there is no struct {name} in the type files; there are {types}")
    return cls


def _connect(endpoint: str | None, types: TypeSet, name: str) -> Space:
    from skerry.client.sync import connect

    return connect(endpoint, name=name, types=types)


def _plain(fields: tuple[str, ...]) -> dict[str, Any]:
    """Values are JSON where they can be read so, and else text."""
    plain: dict[str, Any] = {}
    for field in fields:
        name, equals, text = field.partition("=")
        if not equals:
            raise click.UsageError(f"{field!r} is not of the form FIELD=VALUE")
        try:
            plain[name] = json.loads(text)
        except ValueError:
            plain[name] = text
    return plain


def _show(output: Output, operation: str | None, obj: Any, *, as_json: bool) -> None:
    if as_json:
        row = json.loads(obj.to_json())
        output.json_line(row if operation is None else {**row, "_operation": operation})
    else:
        output.line(str(obj) if operation is None else f"{operation} {obj}")
