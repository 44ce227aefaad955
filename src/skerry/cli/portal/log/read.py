"""`skerry portal log info` and `cat`: summarize and print a Goby log."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.portal.log.options import (
    EntryChoice,
    described,
    descriptors_option,
    entry_options,
    file_argument,
    report_damage,
)


@click.command()
@file_argument
@json_option
def info(*, file: Path, as_json: bool) -> None:
    """Summarize a Goby log: its groups and types, times and damage.

    \b
    Examples:
      skerry portal log info auv_20261115T140307.goby
    """
    from skerry.cli.record.options import shown_size, shown_time
    from skerry.protocol.portal.identifiers import scheme_text
    from skerry.runtime.goby_logs import GobyLogFile

    output = current_output()
    with GobyLogFile(file) as log:
        reader = log.reader()
        counts: Counter[tuple[str, int, str]] = Counter()
        sizes: Counter[tuple[str, int, str]] = Counter()
        times: list[int] = []
        for entry in reader:
            key = (entry.group, entry.scheme, entry.type_name)
            counts[key] += 1
            sizes[key] += len(entry.data)
            times = [
                min(entry.time_us, *times[:1] or [entry.time_us]),
                max(entry.time_us, *times[1:] or [entry.time_us]),
            ]
        first_ns, last_ns = (time_us * 1000 for time_us in times or (0, 0))
        rows = [
            (group, scheme_text(scheme), type_name, counts[group, scheme, type_name], size)
            for (group, scheme, type_name), size in sorted(sizes.items())
        ]
        report_damage(log, reader, output)
        names = ("group", "scheme", "type", "entries", "bytes")
        if as_json:
            output.json_line(
                file=str(file),
                version=reader.version,
                bytes=log.size,
                entries=counts.total(),
                first_ns=first_ns,
                last_ns=last_ns,
                damaged=reader.damage_count,
                lost_bytes=reader.lost_byte_count,
                content=[dict(zip(names, row, strict=True)) for row in rows],
            )
            return
        output.line(
            f"{file}: version {reader.version}, {shown_size(log.size)}, {counts.total():,} entries"
            + (f" from {shown_time(first_ns)} to {shown_time(last_ns)}" if times else "")
            + (f", {reader.damage_count:,} damaged places" if reader.damage_count else "")
        )
        output.table(names, [(*row[:3], f"{row[3]:,}", f"{row[4]:,}") for row in rows])


@click.command()
@file_argument
@entry_options
@descriptors_option
@click.option("--raw", is_flag=True, help="With --json: payloads in hexadecimal, as `_data_`.")
@json_option
def cat(
    *, file: Path, choice: EntryChoice, descriptors: tuple[Path, ...], raw: bool, as_json: bool
) -> None:
    """Print the entries of a Goby log: scheme, group, type, time and content.

    Messages are decoded by the descriptors in the log.

    \b
    Examples:
      skerry portal log cat auv.goby --group 'nav.*'
      skerry portal log cat auv.goby --json | head
    """
    from skerry.recording.goby.text import entry_line, entry_values
    from skerry.runtime.goby_logs import GobyLogFile

    output = current_output()
    with GobyLogFile(file) as log:
        types = described(log, descriptors, output)
        reader = log.reader()
        for entry in choice.of(iter(reader)):
            if as_json:
                output.json_line(entry_values(entry, types, is_raw=raw))
            else:
                output.line(entry_line(entry, types))
        report_damage(log, reader, output)
