"""`skerry types check`, `format` and `diff`: problems, layout and changes of type files."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.types.sources import (
    STDIN,
    Examined,
    TypeFiles,
    examine,
    files_argument,
    load_files,
    problem_row,
    show_problem,
)
from skerry.errors import SchemaSyntaxError, Severity
from skerry.formatting import counted

if TYPE_CHECKING:
    from skerry.schema.changes import Change, Verdict


@click.command()
@files_argument
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings, too.")
@json_option
@click.pass_context
def check(context: click.Context, *, files: Sequence[str], strict: bool, as_json: bool) -> None:
    """Report all problems of type files.

    Types with errors cannot be used. Types with warnings can, but should be reviewed. With --json,
    each problem is a line on standard output.

    \b
    Examples:
      skerry types check fleet.dots
      skerry types check --strict types/*.dots
      git show HEAD:fleet.dots | skerry types check -

    Exit code 0: no errors; 1: errors, or warnings with --strict.
    """
    output = current_output()
    examined = examine(files)
    for problem in examined.problems:
        if as_json:
            output.json_line(problem_row(problem))
        else:
            show_problem(output, problem, examined.files.text(problem.file))
    if not as_json:
        _sum_up_problems(output, examined)
    has_failed = examined.checked is None or (strict and bool(examined.problems))
    context.exit(1 if has_failed else 0)


def _sum_up_problems(output: Output, examined: Examined) -> None:
    from skerry.limits import PROBLEM_COUNT_MAX

    severities = [problem.severity for problem in examined.problems]
    found = [
        counted(severities.count(severity), severity.value)
        for severity in Severity
        if severity in severities
    ]
    parts = [counted(len(examined.files), "file")]
    if examined.checked is not None:
        parts.append(counted(len(examined.checked.types), "type"))
    output.note(f"{', '.join(parts)}: {', '.join(found) or 'no problems'}")
    if any(severities.count(severity) >= PROBLEM_COUNT_MAX for severity in Severity):
        output.note(f"only the first {PROBLEM_COUNT_MAX} problems are shown")


@click.command("format")
@files_argument
@click.option("--check", is_flag=True, help="Only list the files that would change.")
@click.option("--diff", is_flag=True, help="Only print the changes.")
@click.pass_context
def format_files(context: click.Context, *, files: Sequence[str], check: bool, diff: bool) -> None:
    """Rewrite type files in the standard layout.

    Comments and meaning are preserved. Files that do not parse are not changed. The file `-` is
    read from standard input and printed.

    \b
    Examples:
      skerry types format fleet.dots
      skerry types format --check types/*.dots
      skerry types format --diff fleet.dots

    Exit code 0: done; 1: a file does not parse, or --check found one to change.
    """
    output = current_output()
    given = TypeFiles()
    names = given.add(files)
    changed: list[str] = []
    has_failed = False
    for name in dict.fromkeys(names):
        try:
            before, after = _layouts(given, name)
        except SchemaSyntaxError as error:
            has_failed = True
            for problem in error.problems:
                show_problem(output, problem, given.text(name))
            continue
        if before != after:
            changed.append(name)
        if diff:
            lines = before.decode().splitlines(), after.decode().splitlines()
            for line in difflib.unified_diff(*lines, name, f"{name} (formatted)", lineterm=""):
                output.line(line)
        elif not check:
            _write(output, name, before, after)
    _sum_up(output, names, changed, would=check or diff)
    context.exit(1 if has_failed or (check and changed) else 0)


def _layouts(given: TypeFiles, name: str) -> tuple[bytes, bytes]:
    from skerry.schema.formatter import format_text
    from skerry.schema.language.lexer import decode

    before = given.read(name)
    assert before is not None, "it was read when the command began"
    after = format_text(decode(before, name), name)
    # A file with CR LF line ends keeps them.
    if b"\r\n" in before:
        after = after.replace("\n", "\r\n")
    return before, after.encode()


def _write(output: Output, name: str, before: bytes, after: bytes) -> None:
    from skerry.runtime.whole_files import replace_files

    if name == STDIN:
        click.echo(after, nl=False)
    elif before != after:
        replace_files({Path(name): after})
        output.note(f"formatted {name}")


def _sum_up(output: Output, names: Sequence[str], changed: Sequence[str], *, would: bool) -> None:
    if would:
        for name in changed:
            output.note(f"{name} would change")
    if set(names) == {STDIN} and not would:
        return
    verb = "would change" if would else "formatted"
    output.note(f"{counted(len(set(names)), 'file')}, {len(changed)} {verb}")


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
    from skerry.schema.changes import Verdict, verdict
    from skerry.schema.evolve import compare_all

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
