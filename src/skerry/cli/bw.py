"""`skerry bw`: the bandwidth of a type or a subject."""

from __future__ import annotations

from typing import Any

import click

from skerry.cli.measuring import NumberSummary, measure, measuring_options, size_text


@click.command()
@measuring_options
def bw(**given: Any) -> None:
    """Show the bytes per second of a type or a subject, one line per interval, until Ctrl-C.

    The size of an update is that of its encoded fields, or of the bytes of a subject; headers are
    not counted. Objects that exist already are not counted.

    \b
    Examples:
      skerry bw Vessel
      skerry bw '/...' --interval 10
      skerry bw Vessel --count 5 --json
    """
    measure(lambda event, _now_s: len(event.data), _text, _row, **given)


def _text(sizes: NumberSummary, count: int, seconds: float) -> str:
    return (
        f"{size_text(sizes.total / seconds)}/s, {count / seconds:,.1f} updates/s of"
        f" {size_text(sizes.least)} to {size_text(sizes.greatest)}, mean {size_text(sizes.mean)}"
    )


def _row(sizes: NumberSummary, count: int, seconds: float) -> dict[str, object]:
    row: dict[str, object] = {
        "bytes_per_s": sizes.total / seconds,
        "rate": count / seconds,
        "count": count,
    }
    if sizes.count:
        row |= {"size_min": int(sizes.least), "size_max": int(sizes.greatest)}
        row["size_mean"] = sizes.mean
    return row
