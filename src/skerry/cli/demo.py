"""`skerry demo`: the guided tour."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import FiniteFloat
from skerry.cli.progress import progress_bar
from skerry.cli.stopping import stop_on_signals
from skerry.formatting import span

if TYPE_CHECKING:
    from skerry.apps.demo.tour import Check, Tour


@click.command()
@click.option(
    "--seconds",
    type=FiniteFloat(min=0),
    default=20.0,
    help="Duration in seconds. If it is too short, the tour runs as fast as possible; 0 means until"
    " Ctrl-C.",
)
@click.option(
    "--vessels",
    type=click.IntRange(1, 200),
    default=20,
    help="Number of vessels in each of the two fleets.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    help="Seed of the random courses of the vessels.",
)
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder in which recording, tables and report are kept; those of an earlier tour are"
    " replaced. Default: a temporary folder.",
)
@click.option(
    "--spark/--no-spark",
    default=True,
    help="Whether to build tables and a report at the end, which takes a minute.",
)
@click.option("--headless", is_flag=True, help="Omit the progress bar and the types, for scripts.")
@json_option
def demo(
    *,
    seconds: float,
    vessels: int,
    seed: int,
    keep: Path | None,
    spark: bool,
    headless: bool,
    as_json: bool,
) -> None:
    """Run a guided tour: a node, programs that share objects through it, and failures.

    Two fleets publish vessels, a collision alarm watches them, and a slow display falls behind.
    Then a program is killed and restarted, and so is the node. All programs are separate processes
    in a temporary folder and end with the tour. At the end, the published objects are compared with
    those that the other programs received, with the recording, and with the tables that Spark made
    of it. Three further nodes form a system: each has the same picture of it, and they agree on the
    death of one that is killed. The exit code is 0 only if all guarantees were kept.

    \b
    Examples:
      skerry demo                           run the tour
      skerry demo --seconds 5 --headless    as fast as possible, for scripts
      skerry demo --keep tour               keep the recording and the report
      skerry demo --json                    print only the guarantees, one per line
    """
    from skerry.apps.demo.processes import DemoProcesses
    from skerry.apps.demo.tour import Tour

    started_s = monotonic()
    output = current_output()
    is_quiet = headless or as_json
    if not is_quiet:
        _introduce(output)
    with stop_on_signals() as stop, DemoProcesses() as processes:
        tour = Tour(
            processes,
            report=_ignore if as_json else lambda text: output.note(f"     {text}"),
            is_stopped=lambda: stop.is_requested,
            seconds=seconds,
            vessel_count=vessels,
            seed=seed,
            folder=None if keep is None else keep.absolute(),
            has_tables=spark,
        )
        _play(tour, output, is_quiet=is_quiet, as_json=as_json)
    _report(tour.checks, output, as_json=as_json)
    if not as_json:
        _show_results(tour, output, is_kept=keep is not None)
        output.note(f"\nthe tour took {span(timedelta(seconds=monotonic() - started_s))}")
    if not all(check.holds for check in tour.checks):
        output.error("a guarantee was broken: this is a bug in skerry, please report it")
        click.get_current_context().exit(1)


def _show_results(tour: Tour, output: Output, *, is_kept: bool) -> None:
    """Print where the recording, the tables and the report are."""
    if not is_kept:
        output.note("\nWith --keep DIR, the recording, the tables and the report stay in a folder.")
        return
    output.note("")
    for name, path in tour.results().items():
        output.note(f"{name + ':':10} {_short(path)}")


def _short(path: Path) -> str:
    """The path as seen from the current folder if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _introduce(output: Output) -> None:
    import skerry
    from skerry.apps.demo.fleet import Alarm, Radar, Vessel, Voyage

    output.note("The programs share these types, which are declared in Python:\n")
    output.note(skerry.to_dots(Vessel, Voyage, Alarm, Radar))


def _play(tour: Tour, output: Output, *, is_quiet: bool, as_json: bool) -> None:
    from skerry.apps.demo.tour import STEP_COUNT

    bar = nullcontext(_ignore) if is_quiet else progress_bar(output, "the tour", total=STEP_COUNT)
    with bar as advance:
        for number, step in enumerate(tour.steps(), 1):
            advance(number > 1)
            if not as_json:
                output.note(f"{number}. {step.title}: {step.why}")
        advance(1)


def _report(checks: list[Check], output: Output, *, as_json: bool) -> None:
    if as_json:
        for check in checks:
            output.json_line(promise=check.promise, holds=check.holds, facts=check.facts)
    else:
        output.note("guarantees:")
        rows = [("kept" if c.holds else "BROKEN", c.promise, c.facts) for c in checks]
        output.table(("", "guarantee", "facts"), rows)


def _ignore(_what: object) -> None:
    """Discards messages and progress."""
