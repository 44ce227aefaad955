"""`skerry hz`: the rate of a type or a subject."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from skerry.cli.measuring import NumberSummary, measure, measuring_options, span_text

if TYPE_CHECKING:
    from skerry.client.core.events import Event


@click.command()
@measuring_options
def hz(**given: Any) -> None:
    """Show how often a type or a subject is updated, one line per interval, until Ctrl-C.

    Each line has the updates per second, and the least, greatest and mean gap between two updates
    with its standard deviation. Objects that exist already are not counted.

    \b
    Examples:
      skerry hz Vessel
      skerry hz '/prices/*' --interval 10
      skerry hz Vessel --count 5 --json
    """
    last_s: float | None = None

    def gap(_event: Event[Any], _now_s: float) -> float | None:
        nonlocal last_s
        before_s, last_s = last_s, perf_counter()
        return None if before_s is None else last_s - before_s

    measure(gap, _text, _row, **given)


def _text(gaps: NumberSummary, count: int, seconds: float) -> str:
    rate = f"{count / seconds:,.1f} updates/s"
    if not gaps.count:
        return rate
    return (
        f"{rate}, gap {span_text(gaps.least)} to {span_text(gaps.greatest)},"
        f" mean {span_text(gaps.mean)}, deviation {span_text(gaps.deviation)}"
    )


def _row(gaps: NumberSummary, count: int, seconds: float) -> dict[str, object]:
    row: dict[str, object] = {"rate": count / seconds, "count": count}
    if gaps.count:
        row |= {"gap_s_min": gaps.least, "gap_s_max": gaps.greatest}
        row |= {"gap_s_mean": gaps.mean, "gap_s_deviation": gaps.deviation}
    return row
