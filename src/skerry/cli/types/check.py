"""`skerry types check`: report all problems of type files, with file and line."""

from __future__ import annotations

from collections.abc import Sequence

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.types.sources import (
    Examined,
    counted,
    examine,
    files_argument,
    problem_row,
    show_problem,
)
from skerry.errors import Severity


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
        _sum_up(output, examined)
    has_failed = examined.checked is None or (strict and bool(examined.problems))
    context.exit(1 if has_failed else 0)


def _sum_up(output: Output, examined: Examined) -> None:
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
