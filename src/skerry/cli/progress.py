"""Progress bars and status lines: on stderr, on a terminal only, if the configuration allows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from skerry.cli.output import Output


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
    with output.console(stream).status(what) as status:
        yield status.update


def is_shown(output: Output, stream: TextIO) -> bool:
    """Whether to show progress on `stream`."""
    return output.config.progress and stream.isatty()
