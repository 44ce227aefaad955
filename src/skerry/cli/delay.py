"""`skerry delay`: the age of updates when they arrive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from skerry.cli.measuring import NumberSummary, measure, measuring_options, span_text

if TYPE_CHECKING:
    from skerry.client.core.events import Event


@click.command()
@measuring_options
def delay(**given: Any) -> None:
    """Show how old updates of a type or a subject are when they arrive, one line per interval.

    The age is the time between the publish and the arrival at this command. If the publisher is on
    another computer, the difference of the two clocks is a part of it: a negative age means that
    the clock of the publisher is ahead. Objects that exist already are not counted.

    \b
    Examples:
      skerry delay Vessel
      skerry delay '/prices/*' --interval 10
      skerry delay Vessel --count 5 --json
    """
    measure(_age, _text, _row, **given)


def _age(event: Event[Any], now_s: float) -> float:
    return now_s - event.info.modified


def _text(ages: NumberSummary, count: int, seconds: float) -> str:
    ahead = "; the clock of the publisher is ahead" if ages.least < 0 else ""
    return (
        f"{span_text(ages.least)} to {span_text(ages.greatest)}, mean {span_text(ages.mean)},"
        f" deviation {span_text(ages.deviation)}, {count / seconds:,.1f} updates/s{ahead}"
    )


def _row(ages: NumberSummary, count: int, seconds: float) -> dict[str, object]:
    row: dict[str, object] = {"rate": count / seconds, "count": count}
    if ages.count:
        row |= {"delay_s_min": ages.least, "delay_s_max": ages.greatest}
        row |= {"delay_s_mean": ages.mean, "delay_s_deviation": ages.deviation}
    return row
