"""Output of commands: data to stdout, messages to stderr.

Reading commands print a table or, with `--json`, one JSON object per line.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TextIO

import click

from skerry.cli.parameters import Command
from skerry.json_values import plain, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_WIDTH_OF_FILES: Final = 100_000
"""Width of tables in a file or pipe: wider than any row, so that nothing is wrapped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CliConfig:
    """Section `cli`: messages and colours of commands."""

    color: Literal["auto", "always", "never"] = "auto"
    """When to use colours: `auto` (on a terminal only), `always` or `never`."""
    progress: bool = True
    """Whether to show progress bars on a terminal."""


class Output:
    """Writes to stdout and stderr of a command."""

    def __init__(self, config: CliConfig | None = None, *, debug: bool = False) -> None:
        self.config = config or CliConfig()
        self.debug = debug
        """Whether to print a traceback with an error."""
        self.live: Console | None = None
        """The console of a progress bar that is shown: text is printed above the bar."""

    def line(self, text: str) -> None:
        # The stream is given, since click would otherwise bypass an ASCII stream and write bytes.
        click.echo(text, file=sys.stdout)

    def result(self, text: str, *, as_json: bool, **facts: object) -> None:
        """Write the result of a command to stdout, as text or as JSON."""
        if as_json:
            self.json_line(facts)
        else:
            self.line(text)

    def json_line(self, row: Mapping[str, object] | None = None, /, **facts: object) -> None:
        """Write an object as a line of JSON to stdout."""
        row = {**(row or {}), **facts}
        text = json_text(row)
        self.line(text if _fits(text, sys.stdout) else json_text(row, in_ascii=True))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Write a table to stdout, wrapped to the width of a terminal, unwrapped elsewhere."""
        self.console(sys.stdout).print(make_table(columns, rows))

    def note(self, text: str) -> None:
        if self.live is None:
            click.echo(text, err=True)
        else:
            self.live.print(text, markup=False, soft_wrap=True)

    def warning(self, text: str) -> None:
        """Write a warning to stderr; the command continues."""
        self._labelled("warning", "yellow", text)

    def error(self, text: str, hint: str | None = None) -> None:
        """Write an error to stderr, with a hint what to do about it."""
        self._labelled("error", "red", text)
        if hint:
            self._labelled("hint", "cyan", f" {hint}")

    def traceback(self, error: BaseException) -> None:
        """Write the traceback of an error to stderr, for `--debug`."""
        self.note("".join(traceback.format_exception(error)).rstrip())

    def uses_color(self, stream: TextIO) -> bool:
        """Whether output to `stream` is coloured."""
        if self.config.color != "auto":
            return self.config.color == "always"
        import os

        return stream.isatty() and not os.environ.get("NO_COLOR")

    def console(self, stream: TextIO) -> Console:
        from rich.console import Console

        return Console(
            file=stream,
            force_terminal=True if self.config.color == "always" else None,
            no_color=not self.uses_color(stream),
            width=None if stream.isatty() else _WIDTH_OF_FILES,
            highlight=False,
            soft_wrap=not stream.isatty(),
        )

    def _labelled(self, label: str, color: str, text: str) -> None:
        shown = click.style(f"{label}:", fg=color, bold=True)
        if self.live is None:
            click.echo(f"{shown} {text}", err=True, color=self.uses_color(sys.stderr))
        else:
            from rich.text import Text

            words = Text.assemble((f"{label}:", f"bold {color}"), f" {text}")
            self.live.print(words, soft_wrap=True)


def make_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(str(cell))) for cell in row))
    return table


def current_output() -> Output:
    """The output of the command that is running."""
    found = click.get_current_context().find_object(Output)
    assert found is not None, "commands run below skerry.cli.main"
    return found


def json_option_of(text: str) -> Callable[[Command], Command]:
    """Add `--json` with this help to a command, as its argument `as_json`."""
    return click.option("-j", "--json", "as_json", is_flag=True, help=text)


json_option = json_option_of("Print one JSON object per line instead of text.")


def json_text(row: Mapping[str, object], *, in_ascii: bool = False) -> str:
    """An object as JSON: fields in their order, bytes in hex, text escaped if `in_ascii`."""
    return json.dumps(row, default=plain, ensure_ascii=in_ascii, separators=(", ", ": "))


def _fits(text: str, stream: TextIO) -> bool:
    """Whether `stream` can encode every character: a backslash escape would not be valid JSON."""
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
