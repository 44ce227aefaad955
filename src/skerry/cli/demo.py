"""`skerry demo`: the guided tour."""

from __future__ import annotations

import sys
from time import sleep
from typing import TYPE_CHECKING, Final

import click

from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import FiniteFloat
from skerry.cli.stopping import Stop, stop_on_signals

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skerry.apps.demo import Demo

__all__ = ["demo"]

_STEP_S: Final = 0.1
_NEWS_S: Final = 3.0
"""How often those hear something who do not see the table."""
_ROWS_SHOWN: Final = 15


@click.command()
@click.option(
    "--seconds",
    type=FiniteFloat(min=0),
    default=12.0,
    show_default=True,
    help="How long to sail; 0 means until Ctrl-C.",
)
@click.option("--vessels", type=click.IntRange(1, 500), default=40, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Decides where they sail.")
@click.option("--headless", is_flag=True, help="No live table: for scripts.")
@json_option
def demo(*, seconds: float, vessels: int, seed: int, headless: bool, as_json: bool) -> None:
    """Take a guided tour: a fleet of vessels, published into a space and watched live.

    The fleet's types are declared in Python. Every vessel publishes what changed of it, a watcher
    builds its own picture from these updates, and at the end the two are compared: the demo ends
    with 0 only if its promises held.

    \b
    skerry demo                           watch it
    skerry demo --seconds 5 --headless    just the checks, for scripts
    """
    from skerry.apps.demo import Demo
    from skerry.runtime.clock import wall_ns

    output = current_output()
    is_live = sys.stdout.isatty() and not headless and not as_json
    with stop_on_signals() as stop:
        if not as_json:
            _introduce(output)
        tour = Demo(wall_ns, seed=seed, vessel_count=vessels)
        _sail(tour, seconds, stop, output, is_live=is_live)
    _report(tour, output, as_json=as_json)


def _introduce(output: Output) -> None:
    import skerry
    from skerry.apps.fleet import Alarm, Hail, Vessel

    output.note("These types, declared in Python, are all the fleet needs:\n")
    output.note(skerry.to_dots(Vessel, Alarm, Hail))


def _sail(tour: Demo, seconds: float, stop: Stop, output: Output, *, is_live: bool) -> None:
    from skerry.runtime.clock import monotonic_ns

    started_ns = monotonic_ns()

    def passed_s() -> float:
        return (monotonic_ns() - started_ns) / 1e9

    def is_over() -> bool:
        return stop.is_requested or (seconds > 0 and passed_s() >= seconds)

    tour.step()
    if not is_live:
        news_s = _NEWS_S
        while not is_over():
            sleep(_STEP_S)
            tour.step()
            if passed_s() >= news_s:
                output.note(f"{passed_s():.0f} s: {tour.fleet.published_count} updates")
                news_s += _NEWS_S
        return
    from rich.live import Live

    with Live(console=output.console(sys.stdout), auto_refresh=False, transient=True) as live:
        while not is_over():
            sleep(_STEP_S)
            tour.step()
            live.update(_picture(tour, passed_s()), refresh=True)


def _picture(tour: Demo, passed_s: float) -> RenderableType:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from skerry.apps.fleet import Alarm, Vessel

    vessels = sorted(
        (obj for obj in tour.watcher.objects.values() if isinstance(obj, Vessel)),
        key=lambda vessel: vessel.mmsi or 0,
    )
    table = Table(title="Vessels in the bay, as the watcher sees them", title_justify="left")
    for column in ("mmsi", "name", "kind", "latitude", "longitude", "course", "knots"):
        table.add_column(column, justify="left" if column in ("name", "kind") else "right")
    for vessel in vessels[:_ROWS_SHOWN]:
        table.add_row(
            str(vessel.mmsi),
            vessel.name,
            vessel.kind.label if vessel.kind else "",
            f"{vessel.lat:.4f}",
            f"{vessel.lon:.4f}",
            f"{vessel.course:03.0f}°",
            f"{vessel.speed:.1f}",
        )
    hidden = len(vessels) - _ROWS_SHOWN
    rate = tour.fleet.published_count / passed_s if passed_s else 0.0
    more = f"and {hidden} more; " if hidden > 0 else ""
    alarms = tour.watcher.count(Alarm)
    line = f"{more}{alarms} pairs too close; {tour.fleet.published_count} updates, {rate:.0f}/s"
    return Group(table, Text(line, style="bold red" if alarms else "bold"))


def _report(tour: Demo, output: Output, *, as_json: bool) -> None:
    checks = tour.checks()
    if as_json:
        for check in checks:
            output.json_line({"promise": check.promise, "holds": check.holds, "facts": check.facts})
    else:
        mean = tour.fleet.payload_bytes / max(tour.fleet.published_count, 1)
        output.line(
            f"{tour.fleet.published_count} updates of {mean:.0f} bytes on average; "
            "what was promised:"
        )
        rows = [("holds" if c.holds else "BROKEN", c.promise, c.facts) for c in checks]
        output.table(("", "promise", "facts"), rows)
    if not all(check.holds for check in checks):
        output.error("a promise was broken: this is a fault of skerry, please report it")
        click.get_current_context().exit(1)
