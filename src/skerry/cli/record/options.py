"""Options that the commands about recordings have alike, and the kinds of values they take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from skerry.cli.groups import group_reach_options
from skerry.cli.output import Output
from skerry.cli.parameters import CheckedText, check_group, check_pattern
from skerry.cli.progress import progress_bar
from skerry.cli.stopping import stop_on_signals
from skerry.errors import RecordingError, SkerryError

if TYPE_CHECKING:
    from skerry.apps.recorder.node_source import NodeWishes
    from skerry.cli.nodes import NodeChoice
    from skerry.runtime.recordings.reader import Recording

__all__ = [
    "Age",
    "Instant",
    "Size",
    "found_folders",
    "group_options",
    "node_wishes",
    "opened",
    "row_progress",
    "selection_options",
    "shown_size",
    "shown_time",
    "warn_of_absent",
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
        age_s = float(found[1]) * _AGES[found[2]]
        if not age_s:
            self.fail(f"{value!r} would keep nothing; without the option all is kept", param, ctx)
        return age_s


class Size(click.ParamType[int]):
    """A size such as 500M or 20G, in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d{1,12})([KMGT]?)i?B?", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no size; write 500M or 20G", param, ctx)
        size = int(found[1]) * _SIZES[found[2]]
        if not size:
            self.fail(f"{value!r} would keep nothing; without the option all is kept", param, ctx)
        return size


def selection_options(command: Command) -> Command:
    """Which rows are meant: `from_ns`, `to_ns`, `types` and `subjects`."""

    @wraps(command)
    def checked(*, from_ns: int | None, to_ns: int | None, **given: Any) -> Any:
        if from_ns is not None and to_ns is not None and from_ns >= to_ns:
            raise click.UsageError("nothing can be asked for: --from is not before --to")
        return command(from_ns=from_ns, to_ns=to_ns, **given)

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
            type=CheckedText(check_pattern),
            metavar="PATTERN",
            help="Only what is under this pattern; several are fine.",
        ),
    )
    made: Any = checked
    for option in reversed(options):
        made = option(made)
    return cast("Command", made)


def group_options(command: Command) -> Command:
    """A multicast group, and how to get there."""
    options = (
        click.option(
            "--multicast",
            type=CheckedText(check_group),
            metavar="GROUP",
            help="A multicast group, as 239.192.7.1:4711, instead of a node.",
        ),
        group_reach_options,
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


def node_wishes(
    choice: NodeChoice, *, types: tuple[str, ...] = (), subjects: tuple[str, ...] = ()
) -> NodeWishes:
    """The node that was chosen, and what of it."""
    from skerry.apps.recorder.node_source import NodeWishes

    return NodeWishes(
        endpoint=choice.endpoint,
        secret=choice.secret,
        ca=choice.ca,
        cert=choice.cert,
        key=choice.key,
        types=types,
        subjects=subjects,
    )


def opened(*paths: str | Path) -> list[Recording]:
    """The recordings in these folders; RecordingError where there is none, or no pyarrow."""
    with _needing_packages():
        from skerry.runtime.recordings.reader import open_recordings
    return [recording for path in paths for recording in open_recordings(path)]


def found_folders(path: str) -> list[Path]:
    """The folders of the recordings in one of this computer, which are not looked into yet."""
    with _needing_packages():
        from skerry.runtime.recordings.files.folders import find_recordings
    return [Path(found) for found in find_recordings(Path(path)) if isinstance(found, Path)]


@contextmanager
def _needing_packages() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        missing = RecordingError(f"recordings need a package that is not installed: {error.name}")
        missing.hint = "install skerry[recording]"
        raise missing from error


def warn_of_absent(output: Output, recordings: list[Recording], types: tuple[str, ...]) -> None:
    """Say which of the types that were asked for are in none of the recordings."""
    there = {name for found in recordings for segment in found.segments() for name in segment.types}
    for name in sorted(set(types) - there):
        known = ", ".join(sorted(there - {""})) or "none"
        output.warning(f"there is nothing of type {name}; the types there are: {known}")


@contextmanager
def row_progress(output: Output, what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar for who tells how much is done, and of how much.

    Who tells is interrupted if a signal asked for the end: what it began it has to undo.
    """
    with stop_on_signals() as stop, progress_bar(output, what, total=1.0) as advance:
        shown = 0.0

        def tell(done: int, total: int) -> None:
            nonlocal shown
            if stop.is_requested:
                raise KeyboardInterrupt
            share = done / total if total else 1.0
            advance(share - shown)
            shown = share

        yield tell


def shown_time(time_ns: int) -> str:
    """A moment for people; empty for none."""
    from skerry.recording.json_rows import time_text

    return re.sub(r"\.?0*Z$", "Z", time_text(time_ns)) if time_ns else ""


def shown_size(count: int) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    raise AssertionError(count)
