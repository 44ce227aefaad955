"""The report as one self-contained HTML page without scripts.

The plots show values on hover, as titles of SVG elements.

Names of types, clients and subjects are untrusted. All text is escaped by `_text`. In addition, the
content security policy of the page forbids loading and running anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import Final, TypeVar

from skerry.formatting import (
    amount,
    bytes_text,
    count,
    gaps_text,
    moment,
    span,
    span_text,
)
from skerry.json_values import visible
from skerry.runtime.whole_files import replace_files
from skerry.spark.lake.data_files import TableSize
from skerry.spark.report.findings import (
    AlarmRow,
    Delay,
    Findings,
    Line,
    LinkOfNodes,
    ReportSummary,
    SessionRow,
    Subject,
)
from skerry.spark.report.plots import COLORS, latency_plot, loss_plot, rates_plot
from skerry.spark.report.style import STYLE

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
_NAME_CHARS_MAX: Final = 120
_Number = TypeVar("_Number", int, float)


def write_page(findings: Findings, path: Path, *, made: datetime | None = None) -> None:
    """Write the page to a file, atomically; `made` is the time of the report, by default now."""
    replace_files({path: page(findings, made=made or datetime.now(UTC)).encode()})


def page(findings: Findings, *, made: datetime) -> str:
    parts = [_header(findings.summary, made)]
    if findings.summary is None:
        parts.append(_section("No data", "There are no updates in these tables."))
    else:
        parts += [
            _tiles(findings.summary, findings.alarms),
            _rates(findings),
            _latency(findings),
            _delays(findings.delays, findings.slow_ms),
            _loss(findings),
            _node_links(findings.node_links),
            _sessions(findings),
            _alarms(findings.alarms),
            _subjects(findings.subjects, are_prefixes=findings.are_prefixes),
        ]
    parts.append(_tables(findings.tables))
    body = "\n".join(part for part in parts if part)
    left_out = "" if findings.has_own else " Internal types and skerry's own tools are left out."
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_title(findings.summary)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<main>\n{body}\n<footer>Made by skerry from its tables. All times are UTC."
        f"{left_out}</footer>\n"
        "</main>\n</body>\n</html>\n"
    )


# -- sections


def _title(summary: ReportSummary | None) -> str:
    spaces = ", ".join(summary.spaces) if summary else ""
    return _text(f"What happened in {spaces}" if spaces else "What happened")


def _header(summary: ReportSummary | None, made: datetime) -> str:
    if summary is None:
        when = ""
    else:
        when = f"{span_text(summary.since, summary.until)}, {span(summary.until - summary.since)}"
    made_text = f"report of {moment(made)}"
    line = " &middot; ".join(_text(part) for part in (when, made_text) if part)
    return f"<header><h1>{_title(summary)}</h1><p>{line}</p></header>"


def _tiles(summary: ReportSummary, alarms: Sequence[AlarmRow]) -> str:
    seconds = max((summary.until - summary.since).total_seconds(), 1.0)
    tiles = [
        ("", count(summary.updates), "updates"),
        ("", amount(summary.updates / seconds), "updates per second"),
        ("", count(summary.objects), "objects at the end"),
        ("", count(summary.types), "types"),
        ("", f"{count(summary.nodes)} / {count(summary.clients)}", "nodes / programs"),
    ]
    if summary.byte_count is not None:
        tiles.append(("", bytes_text(summary.byte_count), "published"))
    if summary.latency_ms is not None:
        tiles.append(("", f"{amount(summary.latency_ms)} ms", "median latency"))
    missing = "some" if summary.gaps and not summary.lost else count(summary.lost)
    tiles.append(("bad" if summary.gaps else "good", missing, "updates missing"))
    tiles.append(("bad" if alarms else "good", count(len(alarms)), "alarms"))
    cells = "".join(
        f'<div class="tile {mood}"><b>{_text(value)}</b><span>{_text(what)}</span></div>'
        for mood, value, what in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _rates(findings: Findings) -> str:
    assert findings.steps is not None
    if not findings.rates:
        return ""
    plot = rates_plot(findings.rates, findings.steps)
    seconds = findings.steps.seconds
    step = "a second" if seconds == 1 else span(timedelta(seconds=seconds))
    note = f"Updates per second by type, counted in steps of {step}."
    return _section("Traffic", note, plot + _legend(findings.rates))


def _latency(findings: Findings) -> str:
    assert findings.steps is not None
    if findings.latency is None:
        return _section(
            "Latency", "No recorded update has a sending time, so the latency is unknown."
        )
    whose = "all updates" if findings.latency.is_exact else "the median sender"
    note = (
        "From the publisher to the node. The line is the median, the bands reach to the slowest "
        f"tenth and to the slowest hundredth of {whose}."
    )
    return _section("Latency", note, latency_plot(findings.latency, findings.steps))


def _delays(delays: Sequence[Delay], slow_ms: float) -> str:
    if not delays:
        return ""
    rows = [
        f"<tr{' class=slow' if delay.slow_minutes else ''}>"
        f'<td class="name">{_text(delay.who)}</td>'
        f'<td class="number">{count(delay.updates)}</td>'
        + "".join(
            f'<td class="number">{_text(amount(value))}</td>'
            for value in (delay.p50_ms, delay.p90_ms, delay.p99_ms, delay.max_ms)
        )
        + f'<td class="number">{count(delay.slow_minutes)} of {count(delay.minutes)}</td></tr>'
        for delay in delays
    ]
    note = (
        "Milliseconds from each program to its node: medians over its minutes of p50, p90 and p99, "
        "and the longest. A minute is slow if its p90 is "
        f"{amount(slow_ms)} ms or more. A sender clock that is behind looks like a delay."
    )
    columns = ["program", ">updates", ">median", ">p90", ">p99", ">longest", ">slow minutes"]
    return _section("Slow programs", note, _table(columns, rows))


def _loss(findings: Findings) -> str:
    assert findings.summary is not None
    assert findings.steps is not None
    summary = findings.summary
    plot = ""
    if not summary.gaps:
        note = "No updates are known to be missing."
    elif not summary.lost:
        note = f"An unknown number of updates is missing in {gaps_text(summary.gaps)}."
    else:
        note = (
            "Updates that are known to be missing, at the start of their gap; "
            f"{gaps_text(summary.gaps)} in all."
        )
        plot = loss_plot(findings.lost, findings.steps)
    return _section("Loss", " ".join([note, *_repair(summary)]), plot)


def _repair(summary: ReportSummary) -> list[str]:
    """Sentences about retransmissions in multicast groups, if any were recorded."""
    if not summary.datagrams:
        return []
    if not summary.retransmissions:
        return [f"None of {count(summary.datagrams)} datagrams had to be sent again."]
    share = f"{count(summary.retransmissions)} of {count(summary.datagrams)} datagrams"
    if summary.recovery_ms is None:
        return [f"{share} had to be sent again."]
    return [
        f"{share} had to be sent again, which took {amount(summary.recovery_ms)} ms on average."
    ]


def _node_links(links: Sequence[LinkOfNodes]) -> str:
    if not links:
        return ""
    rows = []
    for link in links:
        names = "".join(
            f'<td class="name">{_text(name)}</td>' for name in (link.sender, link.receiver)
        )
        figures = (
            _figure(link.datagrams, count),
            _figure(link.byte_count, bytes_text),
            _figure(link.retransmissions, count),
            _figure(link.round_trip_ms, amount),
            _figure(link.lag_ms, amount),
        )
        rows.append(f"<tr>{names}{''.join(figures)}</tr>")
    note = (
        "What the nodes of the system sent to each other. What was sent again, milliseconds of the"
        " round trip, and the longest time in milliseconds that the receiver was behind, are known"
        " of links from recorded nodes."
    )
    columns = ["from", "to", ">datagrams", ">size", ">sent again", ">round trip", ">longest lag"]
    return _section("Links between nodes", note, _table(columns, rows))


def _figure(value: _Number | None, shown: Callable[[_Number], str]) -> str:
    return f'<td class="number">{"" if value is None else _text(shown(value))}</td>'


def _sessions(findings: Findings) -> str:
    assert findings.summary is not None
    if not findings.sessions:
        return ""
    since, until = findings.summary.since, findings.summary.until
    since = min([since, *(session.first for session in findings.sessions)])
    until = max([until, *(session.until for session in findings.sessions)])
    rows = "".join(_session(session, since, until) for session in findings.sessions)
    axis = (
        '<span></span><div class="axis">'
        f"<span>{_text(moment(since))}</span><span>{_text(moment(until))}</span></div>"
    )
    note = (
        "Nodes first, then programs by the number of updates. A pale bar is a program that is "
        "connected and silent; a red end is an end that the node reported."
    )
    if findings.sessions_left_out:
        note += f" {count(findings.sessions_left_out)} more are in the table sessions."
    return _section("Sessions", note, f'<div class="sessions">{rows}{axis}</div>')


def _session(session: SessionRow, since: datetime, until: datetime) -> str:
    whole = max((until - since).total_seconds(), 1e-6)
    left = 100 * (session.first - since).total_seconds() / whole
    width = 100 * (session.last - session.first).total_seconds() / whole
    silent = 100 * (session.until - session.first).total_seconds() / whole
    classes = " ".join(["bar", session.kind, *(["ended"] if session.ended else [])])
    is_silent = session.until > session.last
    facts = [
        f"{session.kind} {session.name}",
        span_text(session.first, session.last),
        f"{count(session.updates)} updates",
        *([", ".join(session.published)] if session.published else []),
        *([session.ended] if session.ended else []),
        *([f"connected and silent up to {moment(session.until)}"] if is_silent else []),
    ]
    pale = (
        f'<div class="bar silent {escape(session.kind)}" '
        f'style="left:{left:.3f}%;width:{silent:.3f}%"></div>'
    )
    return (
        f'<span class="who" title="{_text(session.name)}">{_text(session.name)}</span>'
        f'<div class="way" title="{_text("; ".join(facts))}">'
        f"{pale if is_silent else ''}"
        f'<div class="{escape(classes)}" style="left:{left:.3f}%;width:{width:.3f}%"></div></div>'
    )


def _alarms(alarms: Sequence[AlarmRow]) -> str:
    if not alarms:
        return _section("Alarms", "There are no alarms.")
    rows = [
        f'<tr><td><span class="badge {_text(alarm.kind)}">{_text(alarm.kind)}</span></td>'
        f'<td class="name">{_text(alarm.who)}</td>'
        f'<td class="time">{_text(span_text(alarm.since, alarm.until))}</td>'
        f'<td class="number">{_text(amount(alarm.score))}</td>'
        f'<td class="name">{_text(alarm.evidence, chars_max=1000)}</td></tr>'
        for alarm in alarms
    ]
    note = "Unusual observations; the score is the distance from the baseline, the highest first."
    return _section("Alarms", note, _table(["", "subject", "when", ">score", "evidence"], rows))


def _subjects(subjects: Sequence[Subject], *, are_prefixes: bool) -> str:
    if not subjects:
        return ""
    most = max(subject.updates for subject in subjects)
    rows = [
        _share_row(subject.name, subject.updates / most, [count(subject.updates)])
        for subject in subjects
    ]
    note = "First levels of subjects, by updates." if are_prefixes else "By updates."
    return _section("Busiest subjects", note, _table(["subject", ">updates"], rows))


def _tables(tables: Sequence[TableSize]) -> str:
    if not tables:
        return ""
    most = max(1, *(table.byte_count for table in tables))
    rows = [
        _share_row(
            table.name,
            table.byte_count / most,
            [count(table.rows), count(table.files), bytes_text(table.byte_count)],
        )
        for table in tables
    ]
    note = "The tables of the lake and their sizes."
    return _section("Tables", note, _table(["table", ">rows", ">files", ">size"], rows))


# -- pieces


def _section(title: str, note: str, content: str = "") -> str:
    wrapped = f'<div class="scroll">{content}</div>' if content else ""
    return (
        f'<section><h2>{_text(title)}</h2><p class="note">{_text(note, 500)}</p>{wrapped}</section>'
    )


def _legend(lines: Sequence[Line]) -> str:
    items = "".join(
        f'<li><i style="background:var({color})"></i>{_text(line.name)} '
        f"<small>{count(int(line.total))}</small></li>"
        for line, color in zip(lines, COLORS, strict=False)
    )
    return f'<ul class="legend">{items}</ul>'


def _table(columns: Iterable[str], rows: Iterable[str]) -> str:
    heads = "".join(
        f'<th class="number">{_text(name[1:])}</th>'
        if name[:1] == ">"
        else f"<th>{_text(name)}</th>"
        for name in columns
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _share_row(name: str, share: float, numbers: Iterable[str]) -> str:
    cells = "".join(f'<td class="number">{_text(number)}</td>' for number in numbers)
    return (
        f'<tr><td class="share" style="--share:{100 * share:.2f}%"><span>{_text(name)}</span></td>'
        f"{cells}</tr>"
    )


def _text(text: str, chars_max: int = _NAME_CHARS_MAX) -> str:
    """Text escaped for HTML, with a limited length."""
    shown = visible(text)
    if len(shown) > chars_max:
        shown = f"{shown[: chars_max - 1]}…"
    return escape(shown, quote=True)
