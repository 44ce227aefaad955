"""`skerry types format`: format type files."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

import click

from skerry.cli.output import Output, current_output
from skerry.cli.types.sources import STDIN, TypeFiles, counted, files_argument, show_problem
from skerry.errors import SchemaSyntaxError


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
