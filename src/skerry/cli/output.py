"""What commands say: data to stdout, words for people to stderr.

Reading commands give a table to people and, with `--json`, one JSON object per line to programs.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO, TypeVar

import click

from skerry.json_values import plain, visible

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["CliConfig", "Output", "current_output", "json_option", "json_text"]

Command = TypeVar("Command", bound=Callable[..., Any])

_WIDTH_OF_FILES: Final = 100_000
"""A file or a pipe has no edge to wrap at: wider than any row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CliConfig:
    """Section `cli`: how commands talk to people."""

    color: Literal["auto", "always", "never"] = "auto"
    """When to use colours: on a terminal only, always, or never."""
    progress: bool = True
    """Whether to show progress bars on a terminal."""


class Output:
    """The two streams of a command, and how to write to them."""

    def __init__(self, config: CliConfig | None = None, *, debug: bool = False) -> None:
        self.config = config or CliConfig()
        self.debug = debug
        """Whether errors come with a traceback."""

    def line(self, text: str) -> None:
        """Data: one line as it is."""
        # Said explicitly, or click would not write to a stream of ASCII but to its bytes.
        click.echo(text, file=sys.stdout)

    def json_line(self, row: Mapping[str, object]) -> None:
        """Data: one object as a line of JSON."""
        text = json_text(row)
        self.line(text if _fits(text, sys.stdout) else json_text(row, in_ascii=True))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Data: rows in columns, as wide as the terminal allows, or unwrapped elsewhere."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(visible(str(cell))) for cell in row))
        self.console(sys.stdout).print(table)

    def note(self, text: str) -> None:
        """Words for people."""
        click.echo(text, err=True)

    def warning(self, text: str) -> None:
        """Something is wrong, and the command goes on."""
        self._labelled("warning", "yellow", text)

    def error(self, text: str, hint: str | None = None) -> None:
        """Why the command failed, and what to do about it."""
        self._labelled("error", "red", text)
        if hint:
            self._labelled("hint", "cyan", f" {hint}")

    def traceback(self, error: BaseException) -> None:
        """Where an error came from, for `--debug`."""
        self.note("".join(traceback.format_exception(error)).rstrip())

    def uses_color(self, stream: TextIO) -> bool:
        """Whether to colour what goes to `stream`."""
        if self.config.color != "auto":
            return self.config.color == "always"
        import os

        return stream.isatty() and not os.environ.get("NO_COLOR")

    def console(self, stream: TextIO) -> Console:
        """A rich console on `stream`, in the colours that were asked for."""
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
        click.echo(f"{shown} {text}", err=True, color=self.uses_color(sys.stderr))


def current_output() -> Output:
    """The output of the command that is running."""
    found = click.get_current_context().find_object(Output)
    assert found is not None, "commands run below skerry.cli.main"
    return found


def json_option(command: Command) -> Command:
    """Gives a reading command `--json`, as its argument `as_json`."""
    text = "One JSON object per line instead of a table."
    return click.option("--json", "as_json", is_flag=True, help=text)(command)


def json_text(row: Mapping[str, object], *, in_ascii: bool = False) -> str:
    """One object as JSON: fields in their order, text unescaped if it may be, bytes in hex."""
    return json.dumps(row, default=plain, ensure_ascii=in_ascii, separators=(", ", ": "))


def _fits(text: str, stream: TextIO) -> bool:
    """Whether the encoding of `stream` has every character; the escapes of others are no JSON."""
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
