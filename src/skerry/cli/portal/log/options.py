"""Options that commands about Goby logs share."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from skerry.cli.output import Output
from skerry.cli.parameters import Command, with_options

if TYPE_CHECKING:
    from skerry.protocol.portal.mapping.protobuf_types import ProtobufTypes
    from skerry.recording.goby.entries import GobyLogEntry
    from skerry.recording.goby.reader import GobyLogReader
    from skerry.runtime.goby_logs import GobyLogFile


class Expression(click.ParamType[re.Pattern[str]]):
    """A regular expression."""

    name = "regex"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> re.Pattern[str]:
        try:
            return re.compile(value)
        except re.error as error:
            self.fail(f"{value!r} is not a regular expression: {error}", param, ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryChoice:
    """Which entries of a log a command uses."""

    groups: re.Pattern[str] | None = None
    types: re.Pattern[str] | None = None
    has_internal: bool = False

    def of(self, entries: Iterator[GobyLogEntry]) -> Iterator[GobyLogEntry]:
        """The chosen entries, without the descriptors."""
        for entry in entries:
            if entry.is_descriptor or (entry.is_internal and not self.has_internal):
                continue
            if self.groups is not None and not self.groups.fullmatch(entry.group):
                continue
            if self.types is None or self.types.fullmatch(entry.type_name):
                yield entry


file_argument = click.argument(
    "file", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False)
)

descriptors_option = click.option(
    "--descriptors",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Descriptor set with messages that the log does not describe, made by"
    " `protoc --include_imports --descriptor_set_out`; may be repeated.",
)


def entry_options(command: Command) -> Command:
    """Add the options that choose entries, as the argument `choice`."""

    @wraps(command)
    def collected(
        *,
        groups: re.Pattern[str] | None,
        types: re.Pattern[str] | None,
        internal: bool,
        **given: Any,
    ) -> Any:
        choice = EntryChoice(groups=groups, types=types, has_internal=internal)
        return command(choice=choice, **given)

    made: Any = with_options(
        click.option(
            "--group",
            "groups",
            type=Expression(),
            metavar="REGEX",
            help="Only entries whose whole group matches. Default: all.",
        ),
        click.option(
            "--type",
            "types",
            type=Expression(),
            metavar="REGEX",
            help="Only entries whose whole type matches. Default: all.",
        ),
        click.option(
            "--internal",
            is_flag=True,
            help="Include what clients and the manager say about the hold.",
        ),
    )(collected)
    return cast("Command", made)


def described(log: GobyLogFile, descriptors: tuple[Path, ...], output: Output) -> ProtobufTypes:
    """The messages of a log and of descriptor sets; warns about faulty descriptors."""
    types, faults = log.protobuf_types(*descriptors)
    for fault in faults:
        output.warning(fault)
    return types


def report_damage(log: GobyLogFile, reader: GobyLogReader, output: Output) -> None:
    """Warn about what a reader could not read."""
    if reader.is_newer:
        output.warning(f"{log.path} has version {reader.version}; it was read as version 3")
    for damage in reader.damages[:_SHOWN_COUNT]:
        output.warning(f"{log.path}: {damage}")
    more = reader.damage_count - _SHOWN_COUNT
    if more > 0:
        output.warning(f"{log.path}: {more:,} more damaged places")
    if reader.unnamed_count:
        output.warning(
            f"{log.path}: {reader.unnamed_count:,} names of groups and types are lost, and were"
            " replaced by numbers"
        )


_SHOWN_COUNT = 10
