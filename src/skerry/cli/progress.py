"""Progress bars and status lines: on stderr, on a terminal only, if the configuration allows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from skerry.cli.output import Output

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def progress_bar(
    output: Output, what: str, *, total: float | None = None
) -> Iterator[Callable[[float], None]]:
    """Show the progress of `what`; the body calls the returned function with each amount done.

    Without `total` the bar only shows that the command is working.
    """
    if not is_shown(output, sys.stderr):
        yield lambda _amount: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=output.console(sys.stderr), transient=True) as progress:
        task = progress.add_task(what, total=total)
        with _above(output, progress.console):
            yield lambda amount: progress.advance(task, amount)


@contextmanager
def status_line(
    output: Output, what: str, stream: TextIO | None = None
) -> Iterator[Callable[[str], None]]:
    """Show a line with an animation, at first `what`; the body calls the function with new text.

    The default stream is stderr.
    """
    stream = stream or sys.stderr
    if not is_shown(output, stream):
        yield lambda _text: None
        return
    console = output.console(stream)
    above = console if stream is sys.stderr else None
    with console.status(what) as status, _above(output, above):
        yield status.update


@contextmanager
def _above(output: Output, console: Console | None) -> Iterator[None]:
    """Print messages above the bar or line of a console, not into it."""
    output.live = console
    try:
        yield
    finally:
        output.live = None


def is_shown(output: Output, stream: TextIO) -> bool:
    """Whether to show progress on `stream`."""
    return output.config.progress and stream.isatty()
