"""Options that the commands about recordings have alike, and the kinds of values they take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from skerry.cli.output import Output
from skerry.cli.progress import progress_bar
from skerry.errors import RecordingError, SkerryError

if TYPE_CHECKING:
    from skerry.runtime.recordings.reader import Recording

__all__ = [
    "Age",
    "Instant",
    "Size",
    "group_options",
    "opened",
    "row_progress",
    "selection_options",
    "shown_size",
    "shown_time",
]

Command = TypeVar("Command", bound=Callable[..., Any])

_AGES: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Instant(click.ParamType[int]):
    """A moment, in nanoseconds since the epoch."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from skerry.spark.instants import instant_ns

        try:
            return instant_ns(value)
        except SkerryError as error:
            self.fail(f"{error}; {error.hint}", param, ctx)


class Age(click.ParamType[float]):
    """A time such as 90s, 12h or 7d, in seconds."""

    name = "age"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no age; write 90s, 30m, 12h or 7d", param, ctx)
        return float(found[1]) * _AGES[found[2]]


class Size(click.ParamType[int]):
    """A size such as 500M or 20G, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d{1,12})([KMGT]?)i?B?", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no size; write 500M or 20G", param, ctx)
        return int(found[1]) * _SIZES[found[2]]


def selection_options(command: Command) -> Command:
    """Which rows are meant: `from_ns`, `to_ns`, `types` and `subjects`."""
    options = (
        click.option(
            "--from",
            "from_ns",
            type=Instant(),
            metavar="T",
            help="From this moment on, as 2026-11-15T14:03:07Z or nanoseconds since the epoch.",
        ),
        click.option(
            "--to", "to_ns", type=Instant(), metavar="T", help="Up to this moment, not included."
        ),
        click.option(
            "--types", multiple=True, metavar="NAME", help="Only this type; several are fine."
        ),
        click.option(
            "--subjects",
            multiple=True,
            metavar="PATTERN",
            help="Only what is under this pattern; several are fine.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def group_options(command: Command) -> Command:
    """A multicast group, and how to get there."""
    options = (
        click.option(
            "--multicast",
            metavar="GROUP",
            help="A multicast group, as 239.192.7.1:4711, instead of a node.",
        ),
        click.option(
            "--interface",
            default="",
            metavar="NAME|ADDRESS",
            help="Network interface of the group; 127.0.0.1 stays on this computer.",
        ),
        click.option(
            "--ttl",
            type=click.IntRange(0, 255),
            default=1,
            show_default=True,
            help="How many routers the group may pass, and one.",
        ),
        click.option(
            "--dialect",
            type=click.Choice(["java", "pycast"]),
            default="java",
            show_default=True,
            help="Whose bytes are spoken in the group.",
        ),
        click.option(
            "--kind",
            type=click.Choice(["bytes", "objects"]),
            default="bytes",
            show_default=True,
            help="What is published in the group: bytes, or objects of nodes.",
        ),
        click.option(
            "--key-file",
            type=click.Path(dir_okay=False),
            default="",
            help="Keys of the group, if it is sealed.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def opened(*paths: str | Path) -> list[Recording]:
    """The recordings in these folders; RecordingError where there is none, or no pyarrow."""
    try:
        from skerry.runtime.recordings.reader import open_recordings
    except ImportError as error:
        missing = RecordingError(f"recordings need a package that is not installed: {error.name}")
        missing.hint = "install skerry[recording]"
        raise missing from error
    return [recording for path in paths for recording in open_recordings(path)]


@contextmanager
def row_progress(output: Output, what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for who tells how much is done, and of how much."""
    with progress_bar(output, what, total=1.0) as advance:
        shown = 0.0

        def tell(done: int, total: int) -> None:
            nonlocal shown
            share = done / total if total else 1.0
            advance(share - shown)
            shown = share

        yield tell


def shown_time(time_ns: int) -> str:
    """A moment for people; empty for none."""
    from skerry.objects.times import seconds_of_ns, to_datetime

    if not time_ns:
        return ""
    return to_datetime(seconds_of_ns(time_ns)).isoformat().replace("+00:00", "Z")


def shown_size(count: int) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    raise AssertionError(count)
