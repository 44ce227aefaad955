"""What `skerry hz`, `bw` and `delay` share: they measure the updates of a type or a subject.

Each update gives one number: the gap to the last one, its size, or its age. A line is printed for
each interval.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from time import monotonic, sleep, time
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.following import (
    check_filter_use,
    check_flow,
    followed_type,
    hides,
    is_subject,
    report_states,
    without_repetition,
)
from skerry.cli.node_options import (
    NodeChoice,
    check_filter,
    node_options,
    type_argument,
    types_option,
)
from skerry.cli.output import current_output, json_option
from skerry.cli.parameters import (
    CheckedText,
    FiniteFloat,
    check_condition,
    count_option,
    with_options,
)
from skerry.cli.stopping import stop_on_signals

if TYPE_CHECKING:
    from skerry.client.core.events import Event

_LOOK_S: Final = 0.05
"""Interval at which a stop request is polled."""

measuring_options = with_options(
    type_argument(metavar="TYPE|SUBJECT"),
    click.option(
        "--where",
        metavar="E",
        type=CheckedText(check_condition),
        help='Only objects that match this condition, such as "lat > 50". Default: all.',
    ),
    click.option(
        "-i",
        "--interval",
        "interval_s",
        type=FiniteFloat(min=0.1, max=86_400),
        default=1.0,
        metavar="S",
        help="Seconds that each line covers.",
    ),
    count_option("lines"),
    types_option,
    node_options,
    json_option,
)
"""Add the arguments of `measure` to a command."""


class NumberSummary:
    """Count, sum, least, greatest, mean and deviation of numbers, which are not kept."""

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.least = math.inf
        self.greatest = -math.inf
        self._mean = 0.0
        self._squares = 0.0

    def add(self, number: float) -> None:
        # Welford's method, which does not lose digits when the numbers are alike.
        self.count += 1
        self.total += number
        self.least = min(self.least, number)
        self.greatest = max(self.greatest, number)
        step = number - self._mean
        self._mean += step / self.count
        self._squares += step * (number - self._mean)

    @property
    def mean(self) -> float:
        return self._mean

    @property
    def deviation(self) -> float:
        return math.sqrt(self._squares / self.count) if self.count else 0.0


Quantity = Callable[["Event[Any]", float], "float | None"]
"""The number of an update that arrived at a time (of the wall clock); None if it has none."""


def measure(
    quantity: Quantity,
    text: Callable[[NumberSummary, int, float], str],
    row: Callable[[NumberSummary, int, float], Mapping[str, object]],
    *,
    type_name: str,
    where: str | None,
    interval_s: float,
    count: int | None,
    types: Mapping[str, Any],
    choice: NodeChoice,
    as_json: bool,
) -> None:
    """Print a line for each interval, of the numbers, the count of updates and the seconds."""
    output = current_output()
    check_filter_use(type_name, where, None)
    with_subject = is_subject(type_name, output)
    lock = threading.Lock()
    summary, arrived = NumberSummary(), 0

    def note(event: Event[Any]) -> None:
        nonlocal arrived
        if event.is_from_cache or hides(type_name, event):
            return
        number = quantity(event, time())
        with lock:
            arrived += 1
            if number is not None:
                summary.add(number)

    with stop_on_signals() as stop, choice.connect("skerry-measure", types=types) as space:
        refusals = report_states(space, output)
        what: Any = type_name
        if not with_subject:
            needs_type = where is not None
            what = followed_type(space, type_name, types, output, needs_type=needs_type)
            if where is not None:
                check_filter(what, where, None)
        with without_repetition():
            space.subscribe(what, note, where=where)
        shown, begun_s = 0, monotonic()
        while not stop.is_requested and shown != count:
            sleep(_LOOK_S)
            check_flow(space, refusals)
            passed_s = monotonic() - begun_s
            if passed_s < interval_s:
                continue
            with lock:
                found, found_count = summary, arrived
                summary, arrived = NumberSummary(), 0
            shown, begun_s = shown + 1, monotonic()
            if as_json:
                output.json_line({**row(found, found_count, passed_s), "seconds": passed_s})
            elif found_count:
                output.line(text(found, found_count, passed_s))
            else:
                output.line(f"no updates in {passed_s:.1f} s")


def size_text(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def span_text(seconds: float) -> str:
    """A span of time for people."""
    magnitude = abs(seconds)
    if magnitude < 0.001:
        return f"{seconds * 1e6:.0f} us"
    return f"{seconds * 1e3:.1f} ms" if magnitude < 1 else f"{seconds:.2f} s"
