"""`skerry pub`: publish objects or bytes to a node."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from time import sleep
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.given_fields import given_fields
from skerry.cli.input import input_contents, input_lines
from skerry.cli.node_options import (
    NodeChoice,
    node_options,
    struct_class,
    type_argument,
    types_option,
)
from skerry.cli.output import current_output, json_option_of
from skerry.cli.parameters import CheckedText, as_wrong_value
from skerry.cli.stopping import Stop, stop_on_signals
from skerry.errors import DecodeError, Disconnected, RequestTimedOut, SkerryError, WouldBlock
from skerry.protocol.patterns import check_subject

if TYPE_CHECKING:
    from skerry.client.api.sync import Space
    from skerry.objects.base import Struct

_LOOK_S: Final = 0.1
"""Interval at which a stop request is polled."""


@click.command()
@type_argument(required=False)
@click.argument("fields", nargs=-1, metavar="[FIELD=VALUE]...")
@click.option("--remove", is_flag=True, help="Remove the object with this key.")
@click.option(
    "--clear", "cleared", multiple=True, metavar="FIELD", help="Unset a field; may be repeated."
)
@click.option(
    "--subject",
    metavar="S",
    type=CheckedText(check_subject),
    help="Subject to publish under. Default: /TYPE/KEY.",
)
@click.option(
    "--data",
    metavar="D",
    help="Bytes to publish under --subject: text, @FILE, hex:DIGITS, or - for the whole standard"
    " input. Default: each line of standard input.",
)
@click.option(
    "--stay",
    is_flag=True,
    help="Stay connected until Ctrl-C: the node removes objects of cleanup types when their"
    " publisher disconnects.",
)
@types_option
@node_options
@json_option_of("Print one JSON object at the end with the number of confirmed updates.")
def pub(
    *,
    type_name: str | None,
    fields: tuple[str, ...],
    remove: bool,
    cleared: tuple[str, ...],
    subject: str | None,
    data: str | None,
    stay: bool,
    types: Mapping[str, Any],
    choice: NodeChoice,
    as_json: bool,
) -> None:
    """Publish an object, each JSON line of standard input, or bytes under a subject.

    Only the given fields change. Values of string fields are taken literally, others are parsed as
    JSON; times may be ISO 8601. In a JSON line, null unsets a field, unknown names that begin with
    _ are ignored, and "_operation": "remove" removes the object: the output of `skerry sub --json`
    can be published.

    The command ends when the node has confirmed all updates and stored the persistent ones. Objects
    of a cleanup type belong to the connection that published them: they are removed when the
    command ends, unless --stay keeps it connected.

    \b
    Examples:
      skerry pub Vessel mmsi=244660000 name=Maren lat=52.1 --types fleet.dots
      skerry pub Vessel mmsi=244660000 lat=52.2          (the node knows the type by now)
      skerry pub Vessel mmsi=244660000 --clear name
      skerry pub Vessel mmsi=244660000 --remove
      producer | skerry pub Vessel
      skerry pub --subject /prices/ERIC-B --data 92.14
      skerry pub --subject /pictures/1 --data @harbour.png
      producer | skerry pub Vessel --json
      skerry pub Pilot id=1 --stay
    """
    _check_use(type_name, fields, remove=remove, cleared=cleared, subject=subject, data=data)
    done = {"published": 0, "removed": 0}
    with stop_on_signals() as stop, choice.connect_or_fail("skerry-pub", types=types) as space:
        if type_name is None:
            assert subject is not None
            for content in input_contents(data, stop):
                _retry(space, lambda content=content: space.publish(subject, content))  # type: ignore[misc]
                done["published"] += 1
        else:
            cls = struct_class(space, type_name, types)
            publisher = _ObjectPublisher(space, cls, subject or "", done)
            if fields:
                with as_wrong_value("FIELD=VALUE", DecodeError):
                    publisher.publish(given_fields(cls, fields, cleared), is_removal=remove)
            else:
                _announce_terminal()
                for number, line in enumerate(input_lines(stop), 1):
                    with _naming_line(number):
                        publisher.publish_line(line, is_removal=remove)
        with choice.fail_if_silent(space):
            _confirm(space, stop)
        if not any(done.values()) and not stop.is_requested:
            current_output().warning(
                "nothing was published: standard input was empty, and no FIELD=VALUE was given"
            )
        if stay:
            current_output().note("published; Ctrl-C disconnects")
            _wait(space, stop)
        elif type_name is not None and cls.descriptor.flags.cleanup and done["published"]:
            current_output().warning(
                f"the node removes these objects now: {type_name} is a cleanup type, and the"
                " command disconnects; --stay keeps them until Ctrl-C"
            )
    if as_json:
        what = {"subject": subject} if type_name is None else {"type": type_name}
        current_output().json_line({**what, **done})


class _ObjectPublisher:
    def __init__(self, space: Space, cls: type[Struct], subject: str, done: dict[str, int]) -> None:
        self._space = space
        self._cls = cls
        self._subject = subject
        self._done = done

    def publish(self, plain: Mapping[str, Any], *, is_removal: bool) -> None:
        """Publish fields by name; None unsets a field."""
        from skerry.objects.json import from_json_values

        obj: Struct = from_json_values(self._cls, plain)
        only = list(plain) if None in plain.values() else None
        space, subject = self._space, self._subject
        self._done["removed" if is_removal else "published"] += 1
        if is_removal:
            _retry(space, lambda: space.remove(obj, subject=subject))
        else:
            _retry(space, lambda: space.publish(obj, only=only, subject=subject))

    def publish_line(self, line: bytes, *, is_removal: bool) -> None:
        """Publish the object of a JSON line; DecodeError if it is not one."""
        descriptor = self._cls.descriptor
        try:
            plain = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DecodeError(type_name=descriptor.name, detail=f"not JSON: {error}") from None
        if not isinstance(plain, dict):
            raise DecodeError(type_name=descriptor.name, detail="not a JSON object")
        is_removal = is_removal or plain.get("_operation") == "remove"
        fields = {
            name: value
            for name, value in plain.items()
            if not name.startswith("_") or descriptor.has_field(name)
        }
        self.publish(fields, is_removal=is_removal)


def _check_use(
    type_name: str | None,
    fields: tuple[str, ...],
    *,
    remove: bool,
    cleared: tuple[str, ...],
    subject: str | None,
    data: str | None,
) -> None:
    if type_name is None and subject is None:
        raise click.UsageError("give a TYPE to publish an object, or --subject to publish bytes")
    if type_name is None and remove:
        raise click.UsageError("bytes under a subject are not cached: there is nothing to remove")
    if type_name is not None and type_name.startswith("/"):
        error = f"{type_name!r:.80} is a subject: write `skerry pub --subject {type_name:.80}`"
        raise click.UsageError(f"{error} and its bytes with --data")
    if type_name is not None and "=" in type_name:
        raise click.UsageError(f"{type_name!r} is not a type name; give the TYPE first")
    if type_name is not None and data is not None:
        raise click.UsageError("--data needs --subject without a TYPE; an object has fields")
    if cleared and not fields:
        raise click.UsageError("--clear needs the key of the object as FIELD=VALUE")


def _announce_terminal() -> None:
    """Say what is waited for, if a person has to type it."""
    if sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty():
        current_output().note("publishing each JSON line that is typed; Ctrl-D ends")


def _retry(space: Space, publish: Callable[[], None]) -> None:
    """Publish, waiting whenever the send buffer is full."""
    while True:
        try:
            publish()
        except WouldBlock:
            space.drain()
        else:
            return


def _confirm(space: Space, stop: Stop) -> None:
    """Wait until the node has confirmed all updates; storing many of them may exceed a timeout."""
    while True:
        try:
            space.flush()
        except RequestTimedOut:
            if stop.is_requested:
                raise
            current_output().note("still waiting for the node to confirm all updates")
        else:
            return


def _wait(space: Space, stop: Stop) -> None:
    """Wait for a stop request, or for the end of the connection."""
    while not stop.is_requested:
        if space.state == "closed":
            raise Disconnected(space.wait_closed() or "the node closed the connection")
        sleep(_LOOK_S)


@contextmanager
def _naming_line(number: int) -> Iterator[None]:
    try:
        yield
    except SkerryError:
        current_output().note(f"line {number} of standard input:")
        raise
