"""Plots as SVG elements that use the colours of the page.

Matplotlib does not support variables of a style sheet. It draws with placeholder colours, which are
replaced by variables of the page in the text of the SVG, so that one drawing fits the light and the
dark theme. Matplotlib does not draw recorded names; names in titles are escaped.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from datetime import UTC
from html import escape
from typing import TYPE_CHECKING, Any, Final

from skerry.formatting import amount, count, moment
from skerry.json_values import visible
from skerry.spark.report.findings import Latency, Line, TimeSteps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLORS: Final = tuple(f"--series-{n}" for n in range(8))
"""Variables of the page for the colours of lines, in order."""

_INK: Final = "#010203"
_FAINT: Final = "#010204"
_SERIES: Final = tuple(f"#0102{n:02x}" for n in range(16, 24))
_VARIABLES: Final = {
    _INK: "var(--ink-soft)",
    _FAINT: "var(--rule)",
    **{color: f"var({name})" for color, name in zip(_SERIES, COLORS, strict=True)},
}
_DECADES: Final = 50
_WIDTH_INCH: Final = 10.0
_LEFT: Final = 0.07
_RIGHT: Final = 0.995
_TOP: Final = 0.97
_POINTS: Final = 72
"""Units of the SVG per inch."""
_LINE_CHARS_MAX: Final = 120
_AXIS_INCH: Final = 0.3
_SETTINGS: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "skerry",  # otherwise each run would have other ids of clip paths
    "font.family": "sans-serif",
    "font.size": 10.0,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "text.color": _INK,
    "text.parse_math": False,
}


def rates_plot(lines: Sequence[Line], steps: TimeSteps) -> str:
    """Updates per second by type, stacked."""
    # The last value twice: it is valid up to the end of its step.
    values = [
        [value / steps.seconds for value in (*line.values, line.values[-1])] for line in lines
    ]

    def draw(axes: Axes) -> None:
        # Steps, not slopes: counts are not interpolated.
        axes.stackplot(
            _edges(steps), *values, colors=_SERIES[: len(values)], step="post", linewidth=0
        )
        axes.set_ylabel("updates per second")
        axes.set_ylim(bottom=0)

    titles = [
        [f"{line.name}: {amount(line.values[n] / steps.seconds)}/s" for line in lines]
        for n in range(steps.count)
    ]
    return _drawn(draw, steps, titles, height_inch=3.2, label="Updates per second, by type")


def latency_plot(latency: Latency, steps: TimeSteps) -> str:
    """The median, with bands up to p90 and p99."""

    def draw(axes: Axes) -> None:
        times = _edges(steps)[:-1]
        p50, p90, p99 = (_numbers(band) for band in (latency.p50, latency.p90, latency.p99))
        axes.fill_between(times, p50, p99, color=_SERIES[0], alpha=0.18, linewidth=0)
        axes.fill_between(times, p50, p90, color=_SERIES[0], alpha=0.35, linewidth=0)
        marker = "o" if steps.count <= 60 else ""
        axes.plot(times, p50, color=_SERIES[0], linewidth=1.8, marker=marker, markersize=3)
        axes.set_ylabel("milliseconds")
        if _spans_decades(latency):
            axes.set_yscale("log")
        elif min(value for value in latency.p50 if value is not None) >= 0:
            axes.set_ylim(bottom=0)

    bands = {"median": latency.p50, "p90": latency.p90, "p99": latency.p99}
    titles = [
        [
            f"{name}: {amount(value)} ms"
            for name, band in bands.items()
            if (value := band[n]) is not None
        ]
        for n in range(steps.count)
    ]
    return _drawn(draw, steps, titles, height_inch=2.6, label="Latency: median, p90 and p99")


def loss_plot(lost: Sequence[int], steps: TimeSteps) -> str:

    def draw(axes: Axes) -> None:
        import numpy as np

        width = np.timedelta64(steps.seconds, "s")
        axes.bar(_edges(steps)[:-1], lost, width=width, align="edge", color=_SERIES[3], linewidth=0)
        axes.set_ylabel("updates missing")
        axes.set_ylim(bottom=0)

    titles = [[f"{count(number)} missing"] for number in lost]
    return _drawn(draw, steps, titles, height_inch=1.8, label="Updates that are missing")


def _drawn(
    draw: Any, steps: TimeSteps, titles: Sequence[Sequence[str]], *, height_inch: float, label: str
) -> str:
    """The plot as SVG; `titles` has the lines that are shown on hover, for each step."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(_WIDTH_INCH, height_inch))
        # The same margins in all plots, so that their time axes are aligned.
        below = _AXIS_INCH / height_inch
        figure.subplots_adjust(left=_LEFT, right=_RIGHT, bottom=below, top=_TOP)
        axes = figure.add_subplot()
        draw(axes)
        _lay_out(axes, steps)
        svg = _svg(figure, label)
    return svg.replace("</svg>", f"{_hover(steps, titles, height_inch)}</svg>")


def _hover(steps: TimeSteps, titles: Sequence[Sequence[str]], height_inch: float) -> str:
    """A transparent rectangle over each step; browsers show its title on hover."""
    left, right = _LEFT * _WIDTH_INCH * _POINTS, _RIGHT * _WIDTH_INCH * _POINTS
    top = (1 - _TOP) * height_inch * _POINTS
    height = (height_inch - _AXIS_INCH) * _POINTS - top
    width = (right - left) / steps.count
    strips = [
        f'<rect x="{left + n * width:.2f}" y="{top:.2f}" width="{width:.2f}" height="{height:.2f}">'
        f"<title>{_title([moment(when), *lines])}</title></rect>"
        for n, (when, lines) in enumerate(zip(steps.instants, titles, strict=True))
    ]
    return f'<g class="hover">{"".join(strips)}</g>'


def _title(lines: Sequence[str]) -> str:
    # Names of types are untrusted.
    return "\n".join(escape(visible(line)[:_LINE_CHARS_MAX]) for line in lines)


def _lay_out(axes: Axes, steps: TimeSteps) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import FuncFormatter

    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color=_FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    locator = AutoDateLocator(tz=UTC, minticks=4, maxticks=10)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator, tz=UTC, show_offset=False)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    edges = _edges(steps)
    axes.set_xlim(edges[0], edges[-1])


def _tick(value: float, _position: int | None = None) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def _edges(steps: TimeSteps) -> Any:
    """The start of each step, and the end of the last."""
    import numpy as np

    first = np.datetime64(steps.first * steps.seconds, "s")
    return first + np.arange(steps.count + 1) * np.timedelta64(steps.seconds, "s")


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _spans_decades(latency: Latency) -> bool:
    """Whether a few high values would flatten all others on a linear scale."""
    slow = sorted(value for value in latency.p99 if value is not None)
    quick = min(value for value in latency.p50 if value is not None)
    return quick > 0 and slow[-1] > _DECADES * slow[len(slow) // 2]


def _svg(figure: Figure, label: str) -> str:
    target = io.StringIO()
    figure.savefig(target, format="svg", transparent=True, metadata={"Date": None})
    text = target.getvalue()
    # The XML declaration before the element is only for separate files.
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for color, variable in _VARIABLES.items():
        text = text.replace(color, variable)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
