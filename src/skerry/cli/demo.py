"""`skerry demo`: the guided tour."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import FiniteFloat
from skerry.cli.progress import progress_bar
from skerry.cli.stopping import stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from skerry.apps.demo.tour import Check, Tour

__all__ = ["demo"]


@click.command()
@click.option(
    "--seconds",
    type=FiniteFloat(min=0),
    default=20.0,
    show_default=True,
    help="How long it should take; less than it needs means as fast as can be, 0 until Ctrl-C.",
)
@click.option(
    "--vessels",
    type=click.IntRange(1, 200),
    default=20,
    show_default=True,
    help="How many each of the two fleets has.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Decides where they sail.")
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Keep the recording, the tables and the report there.",
)
@click.option(
    "--spark/--no-spark",
    default=True,
    show_default=True,
    help="Whether to end with tables and a report, which takes a minute.",
)
@click.option("--headless", is_flag=True, help="No progress bar and no types: for scripts.")
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
    """Take a guided tour: a node, programs that share a space through it, and what may happen.

    Two fleets publish vessels, a lookout raises alarms for those that are too close, and somebody
    is slow. Then a program is killed and comes back, and the node itself is killed and comes back.
    All of them are processes of their own, in a folder of their own, and end with the tour. What
    they did and what others saw is compared at last, also with what was recorded and what Spark
    made of it: the demo ends with 0 only if its promises held.

    \b
    Examples:
      skerry demo                           watch it
      skerry demo --seconds 5 --headless    as fast as can be, for scripts
      skerry demo --keep tour               with a recording and a report to look at afterwards
      skerry demo --json                    only the promises, one a line
    """
    from skerry.apps.demo.stage import DemoStage
    from skerry.apps.demo.tour import Tour

    output = current_output()
    is_quiet = headless or as_json
    if not is_quiet:
        _introduce(output)
    with stop_on_signals() as stop, DemoStage() as stage:
        tour = Tour(
            stage,
            tell=_ignore if as_json else lambda text: output.note(f"     {text}"),
            is_stopped=lambda: stop.is_requested,
            seconds=seconds,
            vessel_count=vessels,
            seed=seed,
            folder=None if keep is None else keep.absolute(),
            has_tables=spark,
        )
        _play(tour, output, is_quiet=is_quiet, as_json=as_json)
    _report(tour.checks, output, as_json=as_json)


def _introduce(output: Output) -> None:
    import skerry
    from skerry.apps.demo.fleet import Alarm, Radar, Vessel, Voyage

    output.note("These types, declared in Python, are all that the programs have in common:\n")
    output.note(skerry.to_dots(Vessel, Voyage, Alarm, Radar))


def _play(tour: Tour, output: Output, *, is_quiet: bool, as_json: bool) -> None:
    from skerry.apps.demo.tour import ACT_COUNT

    if is_quiet:
        _play_acts(tour, output, _ignore, as_json=as_json)
        return
    with progress_bar(output, "the tour", total=ACT_COUNT) as advance:
        _play_acts(tour, output, lambda: advance(1), as_json=as_json)


def _play_acts(tour: Tour, output: Output, done: Callable[[], None], *, as_json: bool) -> None:
    for number, act in enumerate(tour.acts(), 1):
        if number > 1:
            done()
        if not as_json:
            output.note(f"{number}. {act.title}: {act.why}")
    done()


def _report(checks: list[Check], output: Output, *, as_json: bool) -> None:
    if as_json:
        for check in checks:
            output.json_line({"promise": check.promise, "holds": check.holds, "facts": check.facts})
    else:
        output.note("what was promised:")
        rows = [("holds" if c.holds else "BROKEN", c.promise, c.facts) for c in checks]
        output.table(("", "promise", "facts"), rows)
    if not all(check.holds for check in checks):
        output.error("a promise was broken: this is a fault of skerry, please report it")
        click.get_current_context().exit(1)


def _ignore(*_words: str) -> None:
    """Nobody wants to hear it."""
