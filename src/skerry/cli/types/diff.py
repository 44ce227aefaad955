"""`skerry types diff`: changes between two type files, and their effect on readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.types.sources import counted, load_files

if TYPE_CHECKING:
    from skerry.schema.evolve import Change, Verdict


@click.command()
@click.argument("old", type=click.Path(path_type=str))
@click.argument("new", type=click.Path(path_type=str))
@json_option
@click.pass_context
def diff(context: click.Context, *, old: str, new: str, as_json: bool) -> None:
    """Compare two type files, and report which readers each change affects.

    Three readers are considered: a program with the old types that receives new data, a program
    with the new types that receives old data, and a program with the new types that reads stored
    data. `fine` reads all values, `loses` reads objects without the changed value, and `breaks`
    cannot read some objects.

    \b
    Examples:
      skerry types diff fleet.dots fleet-next.dots
      git show v1.0:fleet.dots | skerry types diff - fleet.dots
      skerry types diff --json fleet.dots fleet-next.dots

    With --json, each change is a line, and the last line is the verdict.

    Exit code 0: compatible for all readers; 1: some readers break.
    """
    from skerry.schema.evolve import Verdict, compare_all, verdict

    if (old, new) == ("-", "-"):
        raise click.UsageError("standard input, `-`, can be read only once")
    changes = compare_all(load_files([old]).types, load_files([new]).types)
    # The worst changes first; equal ones in the order of the files.
    ordered = sorted(changes, key=_severity, reverse=True)
    result = verdict(changes)
    output = current_output()
    if as_json:
        _print_rows(output, ordered, result)
    else:
        _print_table(output, ordered, result)
    context.exit(0 if result == Verdict.COMPATIBLE else 1)


def _severity(change: Change) -> int:
    return max(change.old_reader, change.new_reader, change.stored)


def _print_rows(output: Output, changes: Sequence[Change], result: Verdict) -> None:
    for change in changes:
        output.json_line(
            where=change.where,
            change=change.what.value,
            detail=change.detail,
            old_reader=change.old_reader.name.lower(),
            new_reader=change.new_reader.name.lower(),
            stored=change.stored.name.lower(),
            why=change.why,
        )
    output.json_line(_verdict=result.value, _change_count=len(changes))


def _print_table(output: Output, changes: Sequence[Change], result: Verdict) -> None:
    if changes:
        columns = ("where", "change", "detail", "old readers", "new readers", "stored")
        output.table(columns, [_cells(change) for change in changes])
        output.line("")
    for change in changes:
        if _severity(change):
            output.line(f"{change.where}: {change.what.value}: {change.why}")
    found = counted(len(changes), "change") if changes else "no changes"
    output.line(f"{result.value}: {found}")


def _cells(change: Change) -> Sequence[str]:
    effects = (change.old_reader, change.new_reader, change.stored)
    return (
        change.where,
        change.what.value,
        change.detail,
        *(effect.name.lower() for effect in effects),
    )
