"""Type files of a command: reading them, and printing their problems."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

import click

from skerry.cli.output import Output, current_output
from skerry.cli.parameters import Command
from skerry.errors import LimitExceeded, Problem, SchemaError, SchemaSyntaxError, Severity
from skerry.formatting import counted

if TYPE_CHECKING:
    from skerry.schema.check import Checked

STDIN: Final = "<stdin>"
"""Name of standard input in messages."""


def files_argument(command: Command) -> Command:
    """Add one or more files to a command, as its argument `files`."""
    kind = click.Path(path_type=str)
    return click.argument("files", metavar="FILE...", nargs=-1, required=True, type=kind)(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """Types of the files, or the problems that prevent them."""

    checked: Checked | None
    """None when there are errors."""
    problems: tuple[Problem, ...]
    files: TypeFiles


def examine(files: Sequence[str]) -> Examined:
    """Read, parse and check the files and their imports."""
    from skerry.schema.check import check
    from skerry.schema.loading import resolve

    given = TypeFiles()
    names = given.add(files)
    try:
        loaded = resolve(names, given.read)
        checked = check(loaded)
    except SchemaError as error:
        return Examined(checked=None, problems=error.problems, files=given)
    return Examined(checked=checked, problems=checked.warnings, files=given)


def load_files(files: Sequence[str]) -> Checked:
    """The types of the files. Errors are printed, and end the command with exit code 1."""
    examined = examine(files)
    if examined.checked is not None:
        return examined.checked
    output = current_output()
    for problem in examined.problems:
        show_problem(output, problem, examined.files.text(problem.file))
    output.error(f"{counted(len(examined.problems), 'error')} in the types")
    click.get_current_context().exit(1)


class TypeFiles:
    """Files by name, each read once."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}

    def add(self, files: Sequence[str]) -> list[str]:
        """Read files and return their names; ends the command if a file cannot be read."""
        if files.count("-") > 1:
            raise click.UsageError("standard input, `-`, can be read only once")
        from skerry.runtime.whole_files import once_each

        names = once_each(STDIN if file == "-" else str(PurePath(file)) for file in files)
        faults = [fault for name in dict.fromkeys(names) if (fault := self._fault(name))]
        for message, hint in faults:
            current_output().error(message, hint=hint)
        if faults:
            click.get_current_context().exit(1)
        return names

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        if name not in self._contents:
            try:
                self._contents[name] = _content(name)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise SchemaSyntaxError([Problem(message=_refusal(error), file=name)]) from None
        return self._contents[name]

    def text(self, name: str) -> str | None:
        """The text of a file that was read; invalid UTF-8 is replaced."""
        content = self._contents.get(name)
        return None if content is None else content.decode(errors="replace")

    def __len__(self) -> int:
        return len(self._contents)

    def _fault(self, name: str) -> tuple[str, str | None] | None:
        """Read a file; returns the error and a hint if that fails."""
        try:
            self._contents[name] = _content(name)
        except FileNotFoundError:
            return f"{name}: no such file", _missing_hint(Path(name))
        except IsADirectoryError:
            return f"{name} is a folder", f"give its files: {PurePath(name, '*.dots')}"
        except OSError as error:
            return f"{name}: {_refusal(error)}", None
        except LimitExceeded as error:
            return str(error), "check that it is a type file, or split it"
        return None


def show_problem(output: Output, problem: Problem, text: str | None) -> None:
    """Print a problem to stderr, with its source line and a mark under the column."""
    from skerry.schema.language.problems import render

    label = f" {problem.severity.value}: "
    color = "red" if problem.severity == Severity.ERROR else "yellow"
    shown = render(problem, text)
    shown = shown.replace(label, click.style(label, fg=color, bold=True), 1)
    click.echo(shown, err=True, color=output.uses_color(sys.stderr))


def problem_row(problem: Problem) -> dict[str, object]:
    return {
        "file": click.format_filename(problem.file),
        "line": problem.line,
        "column": problem.column,
        "severity": problem.severity.value,
        "message": problem.message,
        "text": problem.text,
        "hint": problem.hint,
    }


def _content(name: str) -> bytes:
    from skerry.limits import SOURCE_BYTES_MAX
    from skerry.runtime.whole_files import read_whole

    if name != STDIN:
        return read_whole(name, bytes_max=SOURCE_BYTES_MAX)
    if sys.stdin is None or sys.stdin.closed:
        raise OSError(errno.EBADF, "standard input is closed")
    content = sys.stdin.buffer.read(SOURCE_BYTES_MAX + 1)
    if len(content) > SOURCE_BYTES_MAX:
        raise LimitExceeded(
            what="size of standard input in bytes", value=len(content), limit=SOURCE_BYTES_MAX
        )
    return content


def _refusal(error: OSError) -> str:
    return f"cannot be read: {error.strerror or error}"


def _missing_hint(path: Path) -> str | None:
    from skerry.suggestions import nearest

    try:
        beside = {file.name for file in path.parent.iterdir() if file.is_file()}
    except OSError:
        return f"the folder {path.parent} does not exist either"
    guess = nearest(path.name, beside)
    return f"did you mean {path.with_name(guess)}?" if guess else None
