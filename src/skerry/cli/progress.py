"""Progress bars: on a terminal only, on stderr, and never where they were switched off."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from skerry.cli.output import Output

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(
    output: Output, what: str, *, total: float | None = None
) -> Iterator[Callable[[float], None]]:
    """Shows how far `what` has come; the body calls what it is given with each amount done.

    Without `total` the bar only tells that something goes on.
    """
    if not (output.config.progress and sys.stderr.isatty()):
        yield _nothing
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


def _nothing(_amount: float) -> None:
    return None
