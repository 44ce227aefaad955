"""`skerry pipeline report`: the main figures as text or JSON, and as a page with plots."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from skerry.cli.config import load_section
from skerry.cli.output import Output, current_output, json_option
from skerry.cli.parameters import FiniteFloat
from skerry.cli.pipeline.settings import PipelineConfig
from skerry.cli.pipeline.spark_session import (
    SparkChoice,
    is_small,
    require_tables,
    spark_options,
    tables_option,
)
from skerry.cli.progress import status_line
from skerry.json_values import visible

if TYPE_CHECKING:
    from skerry.spark.report.findings import Findings, Line

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
_SPARK_WIDTH: Final = 40
_ALARMS_SHOWN: Final = 10


@click.command()
@tables_option
@click.option(
    "--to",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write the report as an HTML page with plots to this file.",
)
@click.option(
    "--slow-ms",
    type=FiniteFloat(min=0),
    metavar="MS",
    help="Latency from which updates count as slow, in milliseconds; by default pipeline.slow_ms"
    " of the configuration.",
)
@click.option(
    "--all",
    "has_own",
    is_flag=True,
    help="Also show internal types, and skerry's own tools such as the recorder.",
)
@spark_options
@json_option
def report(
    *,
    tables: str,
    page: Path | None,
    slow_ms: float | None,
    has_own: bool,
    choice: SparkChoice,
    as_json: bool,
) -> None:
    """Report traffic, latency, loss, sessions and alarms.

    The page that --to writes is self-contained and needs no network. With --json the first line has
    the main figures, followed by one line for each program with its delays and each alarm.

    \b
    Examples:
      skerry pipeline report --tables lake
      skerry pipeline report --tables lake --to report.html
    """
    output = current_output()
    if page is not None and not page.absolute().parent.is_dir():
        folder = page.absolute().parent
        raise click.UsageError(f"cannot write the page: there is no folder {folder}")
    require_tables(tables)
    if slow_ms is None:
        slow_ms = load_section("pipeline", PipelineConfig).value.slow_ms
    with choice.session(output, "skerry pipeline report", is_brief=is_small(tables)) as spark:
        from skerry.lake.reader import open_lake
        from skerry.spark.report.collector import collect_findings
        from skerry.spark.report.page import write_page
        from skerry.spark.tables import Tables

        with status_line(output, "reading the tables"):
            sizes = open_lake(tables).tables()
            source = Tables(spark, tables)
            findings = collect_findings(source, sizes, slow_ms=slow_ms, has_own=has_own)
            if page is not None:
                write_page(findings, page)
    if as_json:
        _print_json(output, findings)
    else:
        _print_text(output, findings)
    if page is not None:
        output.note(f"wrote the page {page}")


def figures(findings: Findings) -> list[tuple[str, str]]:
    """The main figures as pairs of name and text."""
    from skerry.formatting import amount, bytes_text, count, gaps_text, span, span_text

    summary = findings.summary
    if summary is None:
        return []
    seconds = max((summary.until - summary.since).total_seconds(), 1.0)
    time = summary.until - summary.since
    rows = [
        ("space", ", ".join(summary.spaces)),
        ("time", f"{span_text(summary.since, summary.until)} ({span(time)})"),
        ("updates", f"{count(summary.updates)} ({amount(summary.updates / seconds)} a second)"),
        ("objects", f"{count(summary.objects)} at the end, of {count(summary.types)} types"),
        ("nodes", count(summary.nodes)),
        ("programs", count(summary.clients)),
    ]
    if summary.byte_count is not None:
        rows.append(("published", bytes_text(summary.byte_count)))
    if summary.latency_ms is not None:
        rows.append(("latency", f"{amount(summary.latency_ms)} ms (median)"))
    in_gaps = f" in {gaps_text(summary.gaps)}" if summary.gaps else ""
    missing = (
        "some updates" if summary.gaps and not summary.lost else f"{count(summary.lost)} updates"
    )
    rows.append(("missing", missing + in_gaps))
    if summary.datagrams:
        sent_again = (
            f"{count(summary.retransmissions or 0)} of {count(summary.datagrams)} datagrams"
        )
        rows.append(("sent again", sent_again))
    rows.append(("alarms", count(len(findings.alarms))))
    return rows


def _print_json(output: Output, findings: Findings) -> None:
    if findings.summary is None:
        return
    summary = asdict(findings.summary)
    times = {name: summary.pop(name).timestamp() for name in ("since", "until")}
    types = {line.name: int(line.total) for line in findings.rates}
    output.json_line(_kind="summary", **times, **summary, updates_by_type=types)
    for delay in findings.delays:
        output.json_line(_kind="delay", **asdict(delay))
    for link in findings.node_links:
        output.json_line(_kind="node_link", **asdict(link))
    for alarm in findings.alarms:
        row: dict[str, Any] = asdict(alarm)
        row |= {name: row[name].timestamp() for name in ("since", "until")}
        output.json_line(_kind="alarm", **row)


def _print_text(output: Output, findings: Findings) -> None:
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    if findings.summary is None:
        output.note("there are no updates in these tables")
        return
    console = output.console(sys.stdout)
    grid = Table.grid(padding=(0, 2))
    for name, value in figures(findings):
        grid.add_row(Text(name, style="dim"), Text(visible(value), style="bold"))
    console.print(Panel(grid, title="report", title_align="left", expand=False))
    output.table(("type", "updates", "over time"), [_line(line) for line in findings.rates])
    _print_delays(output, findings)
    _print_node_links(output, findings)
    alarms = findings.alarms[:_ALARMS_SHOWN]
    if alarms:
        from skerry.formatting import amount, span_text

        rows = [
            (a.kind, a.who, span_text(a.since, a.until), amount(a.score), a.evidence)
            for a in alarms
        ]
        output.line("")
        output.table(("alarm", "subject", "when", "score", "evidence"), rows)
    if len(findings.alarms) > len(alarms):
        output.note(
            f"{len(findings.alarms) - len(alarms)} more alarms are in the page and the table alarms"
        )


def _print_delays(output: Output, findings: Findings) -> None:
    from skerry.formatting import amount, count

    slow = [delay for delay in findings.delays if delay.slow_minutes]
    if not slow:
        return
    rows = [
        (
            d.who,
            *(amount(ms) for ms in (d.p50_ms, d.p90_ms, d.p99_ms, d.max_ms)),
            f"{count(d.slow_minutes)} of {count(d.minutes)}",
        )
        for d in slow[:_ALARMS_SHOWN]
    ]
    output.line("")
    columns = ("slow program", "median ms", "p90 ms", "p99 ms", "longest ms", "slow minutes")
    output.table(columns, rows)


def _print_node_links(output: Output, findings: Findings) -> None:
    from skerry.formatting import amount, bytes_text, count

    if not findings.node_links:
        return
    rows = [
        (
            link.sender,
            link.receiver,
            "" if link.datagrams is None else count(link.datagrams),
            "" if link.byte_count is None else bytes_text(link.byte_count),
            "" if link.retransmissions is None else count(link.retransmissions),
            *("" if ms is None else amount(ms) for ms in (link.round_trip_ms, link.lag_ms)),
        )
        for link in findings.node_links[:_ALARMS_SHOWN]
    ]
    output.line("")
    columns = ("from node", "to node", "datagrams", "size", "sent again", "round trip ms", "lag ms")
    output.table(columns, rows)


def _line(line: Line) -> tuple[str, str, str]:
    from skerry.formatting import count

    return line.name, count(int(line.total)), _bars(line.values)


def _bars(values: tuple[float, ...]) -> str:
    """The values as a bar chart in one line of text."""
    size = -(-len(values) // _SPARK_WIDTH)
    sums = [sum(values[start : start + size]) for start in range(0, len(values), size)]
    most = max(sums, default=0) or 1
    return "".join(_BLOCKS[math.ceil(8 * value / most)] for value in sums)
