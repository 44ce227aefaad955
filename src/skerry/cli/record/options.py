"""Options and output that the commands for recordings share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from skerry.cli.group_options import group_key_option, group_reach_options
from skerry.cli.output import Output
from skerry.cli.parameters import CheckedText, Command, Instant, check_group, with_options
from skerry.cli.progress import progress_bar
from skerry.cli.stopping import stop_on_signals
from skerry.errors import RecordingError
from skerry.protocol.patterns import check_pattern

if TYPE_CHECKING:
    from skerry.apps.recorder.node_source import NodeOptions
    from skerry.cli.node_options import NodeChoice
    from skerry.runtime.recordings.reader import Recording

_AGES: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SIZES: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Age(click.ParamType[float]):
    """An age such as 90s, 12h or 7d, converted to seconds."""

    name = "age"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not an age such as 90s, 30m, 12h or 7d", param, ctx)
        age_s = float(found[1]) * _AGES[found[2]]
        if not age_s:
            self.fail(f"{value!r} would keep nothing; without the option all is kept", param, ctx)
        return age_s


class Size(click.ParamType[int]):
    """A size such as 500M or 20G, converted to bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        found = re.fullmatch(r"(\d{1,12})([KMGT]?)i?B?", str(value).strip())
        if found is None:
            self.fail(f"{value!r} is not a size such as 500M or 20G", param, ctx)
        size = int(found[1]) * _SIZES[found[2]]
        if not size:
            self.fail(f"{value!r} would keep nothing; without the option all is kept", param, ctx)
        return size


def selection_options(command: Command) -> Command:
    """Add the options that select rows, as the argument `chosen`, those of `selection_of`."""

    @wraps(command)
    def checked(*, from_ns: int | None, to_ns: int | None, **given: Any) -> Any:
        if from_ns is not None and to_ns is not None and from_ns >= to_ns:
            raise click.UsageError("the time range is empty: --from must be before --to")
        chosen = {name: given.pop(name) or None for name in ("types", "subjects")}
        return command(chosen={"from_ns": from_ns, "to_ns": to_ns, **chosen}, **given)

    made: Any = with_options(
        click.option(
            "--from",
            "from_ns",
            type=Instant(),
            metavar="T",
            help="Start of the range, as 2026-11-15T14:03:07Z or nanoseconds since the epoch."
            " Default: the beginning of the recording.",
        ),
        click.option(
            "--to",
            "to_ns",
            type=Instant(),
            metavar="T",
            help="End of the range, exclusive. Default: the end of the recording.",
        ),
        click.option(
            "-t",
            "--types",
            multiple=True,
            metavar="NAME",
            help="Only this type; may be repeated. Default: all types.",
        ),
        click.option(
            "--subjects",
            multiple=True,
            type=CheckedText(check_pattern),
            metavar="PATTERN",
            help="Only subjects that match this pattern; may be repeated. Default: all subjects.",
        ),
    )(checked)
    return cast("Command", made)


bare_option = click.option(
    "--bare", is_flag=True, help="With --from: omit the objects that existed at that time."
)
"""Add `--bare`, which omits the objects that existed at `--from`."""

group_options = with_options(
    click.option(
        "--multicast",
        type=CheckedText(check_group),
        metavar="GROUP",
        help="Multicast group, such as 239.192.7.1:4711, to use instead of a node.",
    ),
    group_reach_options,
    click.option(
        "--kind",
        type=click.Choice(["bytes", "objects"]),
        default="bytes",
        help="Content of the group: bytes, or objects as nodes publish them.",
    ),
    group_key_option,
)
"""Add `--multicast` and the other options of a multicast group."""


def node_options_of(
    choice: NodeChoice, *, types: tuple[str, ...] = (), subjects: tuple[str, ...] = ()
) -> NodeOptions:
    """The chosen node, with the types and subjects to record."""
    from skerry.apps.recorder.node_source import NodeOptions

    return NodeOptions(**asdict(choice), types=types, subjects=subjects)


def opened(*paths: str | Path) -> list[Recording]:
    """Open the recordings in these folders; RecordingError if there is none, or no pyarrow."""
    with _needing_packages():
        from skerry.runtime.recordings.reader import open_recordings
    return [recording for path in paths for recording in open_recordings(path)]


def found_folders(path: str) -> list[Path]:
    """The folders of the recordings in a local folder, without opening them."""
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


def is_uri(path: Path) -> bool:
    """Whether a local path was given as a URI; Path() has merged the two slashes."""
    return re.match(r"[a-z][a-z0-9+]+:/", str(path), re.IGNORECASE) is not None


def warn_of_absent(output: Output, recordings: list[Recording], chosen: Mapping[str, Any]) -> None:
    """Warn about selected types that none of the recordings contains."""
    there = {name for found in recordings for segment in found.segments() for name in segment.types}
    for name in sorted({*(chosen["types"] or ())} - there):
        known = ", ".join(sorted(there - {""})) or "none"
        output.warning(f"the recording has no type {name}; its types are: {known}")


@contextmanager
def row_progress(output: Output, what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows progress; it is called with the amount done and the total.

    It raises KeyboardInterrupt after a signal, so that the caller undoes its work.
    """
    with stop_on_signals() as stop, progress_bar(output, what, total=1.0) as advance:
        shown = 0.0

        def show(done: int, total: int) -> None:
            nonlocal shown
            if stop.is_requested:
                raise KeyboardInterrupt
            share = done / total if total else 1.0
            advance(share - shown)
            shown = share

        yield show


def shown_time(time_ns: int) -> str:
    """A time as text; empty for 0."""
    from skerry.recording.json_rows import time_text

    return re.sub(r"\.?0*Z$", "Z", time_text(time_ns)) if time_ns else ""


def shown_size(count: int) -> str:
    """A number of bytes with its unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    raise AssertionError(count)
