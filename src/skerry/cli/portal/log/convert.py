"""`skerry portal log convert`: Goby logs to text and JSON lines, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.portal.log.options import (
    EntryChoice,
    described,
    descriptors_option,
    entry_options,
    file_argument,
    report_damage,
)

if TYPE_CHECKING:
    from skerry.protocol.portal.mapping.protobuf_types import ProtobufTypes
    from skerry.recording.goby.entries import GobyLogEntry

_FORMATS: Final = {".goby": "goby", ".jsonl": "jsonl", ".json": "jsonl", ".txt": "text"}


@click.command()
@file_argument
@click.argument("target", metavar="NEW", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--format",
    "form",
    type=click.Choice(["goby", "jsonl", "text"]),
    help="Format of NEW. Default: by its suffix.",
)
@entry_options
@descriptors_option
@click.option(
    "--raw",
    is_flag=True,
    help="JSON lines with payloads in hexadecimal, which convert back to the same bytes.",
)
@json_option
def convert(
    *,
    file: Path,
    target: Path,
    form: str | None,
    choice: EntryChoice,
    descriptors: tuple[Path, ...],
    raw: bool,
    as_json: bool,
) -> None:
    """Convert a Goby log to JSON lines, text, or a new log; or JSON lines to a log.

    A new log has the current version, and no damage. NEW may be `-` for standard output. A log is
    written completely or not at all.

    \b
    Examples:
      skerry portal log convert auv.goby auv.jsonl
      skerry portal log convert damaged.goby whole.goby
      skerry portal log convert auv.goby part.goby --group 'nav.*'
      skerry portal log convert edited.jsonl auv.goby
    """
    form = form or _FORMATS.get(target.suffix)
    if form is None:
        raise click.UsageError(
            f"the format of {target.name} is unknown: give --format goby, jsonl or text"
        )
    if form == "goby" and str(target) == "-":
        raise click.UsageError("a Goby log cannot be written to standard output; give a file")
    output = current_output()
    with ExitStack() as stack:
        entries, types = stack.enter_context(_entries(file, choice, descriptors, output))
        if form == "goby":
            count = _write_log(target, entries, types)
        else:
            count = _write_lines(target, entries, types, output, is_json=form == "jsonl", raw=raw)
    if str(target) != "-":
        text = f"{target}: {count:,} entries"
        output.result(text, as_json=as_json, file=str(target), format=form, entries=count)


@contextmanager
def _entries(
    file: Path, choice: EntryChoice, descriptors: tuple[Path, ...], output: Output
) -> Iterator[tuple[Iterator[GobyLogEntry], ProtobufTypes]]:
    from skerry.runtime.goby_logs import GobyLogFile, load_descriptor_sets

    if _FORMATS.get(file.suffix) == "jsonl":
        types = load_descriptor_sets(descriptors)
        yield choice.of(_entries_of_lines(file, types)), types
        return
    with GobyLogFile(file) as log:
        types = described(log, descriptors, output)
        reader = log.reader()
        yield choice.of(iter(reader)), types
        report_damage(log, reader, output)


def _entries_of_lines(file: Path, types: ProtobufTypes) -> Iterator[GobyLogEntry]:
    from skerry.errors import CodecError, RecordingError
    from skerry.recording.goby.text import entry_of_values

    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                yield entry_of_values(json.loads(line), types)
            except (ValueError, RecursionError, CodecError) as error:
                raise RecordingError(f"{file}, line {number}: {error}") from error


def _write_log(target: Path, entries: Iterator[GobyLogEntry], types: ProtobufTypes) -> int:
    from skerry.runtime.goby_logs import new_goby_log

    with new_goby_log(target, types.files_of) as log:
        for entry in entries:
            log.append(entry)
        return log.entry_count


def _write_lines(
    target: Path,
    entries: Iterator[GobyLogEntry],
    types: ProtobufTypes,
    output: Output,
    *,
    is_json: bool,
    raw: bool,
) -> int:
    from skerry.cli.output import json_text
    from skerry.recording.goby.text import entry_line, entry_values
    from skerry.runtime.recordings.files.new_files import new_file

    def line_of(entry: GobyLogEntry) -> str:
        if is_json:
            return json_text(entry_values(entry, types, is_raw=raw), in_ascii=True)
        return entry_line(entry, types)

    count = 0
    if str(target) == "-":
        for entry in entries:
            output.line(line_of(entry))
            count += 1
        return count
    with new_file(target) as stream:
        for entry in entries:
            stream.write(line_of(entry).encode("utf-8", "backslashreplace") + b"\n")
            count += 1
    return count
