"""`skerry portal log play`: publish the entries of a Goby log in a portal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import FiniteFloat
from skerry.cli.portal.log.options import EntryChoice, entry_options, file_argument, report_damage
from skerry.cli.portal.options import client_config, portal_options, unusable
from skerry.cli.progress import status_line
from skerry.cli.stopping import stop_on_signals
from skerry.errors import RequestTimedOut

if TYPE_CHECKING:
    from skerry.apps.portal.log_player import LogPlayback
    from skerry.protocol.portal.config import PortalClientConfig
    from skerry.recording.goby.entries import GobyLogEntry

_NAME = "skerry_log_play"


@click.command()
@file_argument
@entry_options
@click.option(
    "--speed",
    type=FiniteFloat(min=0, min_open=True),
    metavar="X",
    help="Speed as a multiple of the original. Default: 1.",
)
@click.option("--fast", is_flag=True, help="Play as fast as possible, instead of --speed.")
@click.option("--loop", is_flag=True, help="Start again from the beginning at the end.")
@click.option(
    "--start",
    type=FiniteFloat(min=0),
    default=0.0,
    metavar="S",
    help="Seconds of the log to skip at the beginning.",
)
@click.option(
    "--timeout",
    type=FiniteFloat(min=0),
    default=10.0,
    metavar="S",
    help="Seconds to wait for the portal and the release of its hold.",
)
@portal_options
@json_option
def play(
    *,
    file: Path,
    choice: EntryChoice,
    speed: float | None,
    fast: bool,
    loop: bool,
    start: float,
    timeout: float,
    chosen: dict[str, Any],
    as_json: bool,
) -> None:
    """Play a Goby log: publish its entries in a portal, with their original timing.

    What clients and the manager said about the hold is not played, unless --internal is given.

    \b
    Examples:
      skerry portal log play auv.goby
      skerry portal log play auv.goby --speed 10 --group 'nav.*' --platform auv
    """
    if fast and speed is not None:
        raise click.UsageError("--fast and --speed exclude each other")
    from skerry.runtime.goby_logs import GobyLogFile
    from skerry.runtime.loops import run_loop

    output = current_output()
    portal = client_config(chosen)
    with (
        GobyLogFile(file) as log,
        stop_on_signals() as stop,
        status_line(output, "playing") as show,
    ):
        reader = log.reader()

        def entries() -> Iterator[GobyLogEntry]:
            nonlocal reader
            reader = log.reader()
            entries_left = choice.of(iter(reader))
            first = next(entries_left, None)
            if first is None:
                return
            begin_us = first.time_us + int(start * 1e6)
            yield from dropwhile(
                lambda entry: entry.time_us < begin_us, _again(first, entries_left)
            )

        done = run_loop(
            _play(
                entries,
                portal,
                timeout,
                is_stopped=lambda: stop.is_requested,
                speed=None if fast else speed or 1.0,
                is_looping=loop,
                show=show,
            )
        )
        report_damage(log, reader, output)
    for reason, count in done.left_out.items():
        output.warning(f"{count:,} entries are left out: {reason}")
    output.result(f"{done.played:,} entries played", as_json=as_json, **asdict(done))


def _again(first: GobyLogEntry, rest: Iterator[GobyLogEntry]) -> Iterator[GobyLogEntry]:
    yield first
    yield from rest


async def _play(
    entries: Callable[[], Iterator[GobyLogEntry]],
    portal: PortalClientConfig,
    timeout: float,
    **given: Any,
) -> LogPlayback:
    from dataclasses import replace

    from skerry.apps.portal.log_player import play_log
    from skerry.client.portal.portal_link import PortalLink

    link = PortalLink(replace(portal, client_name=_NAME), None)
    try:
        link.set_ready()
        try:
            await link.wait_open(timeout)
            await link.settle(timeout)
        except RequestTimedOut as error:
            raise unusable(portal, error) from error
        return await play_log(entries, link, **given)
    finally:
        await link.close(1.0)
