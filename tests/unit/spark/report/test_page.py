"""The page of a report."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from skerry.spark.lake.data_files import TableSize
from skerry.spark.report.findings import (
    AlarmRow,
    Delay,
    Findings,
    Latency,
    Line,
    LinkOfNodes,
    ReportSummary,
    SessionRow,
    Subject,
    TimeSteps,
)
from skerry.spark.report.page import page, write_page

pytestmark = pytest.mark.slow
NOON = datetime(2026, 9, 21, 12, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script>\"' onload=\"\x1b[31m\u202e"

SUMMARY = ReportSummary(
    spaces=("local",),
    since=NOON,
    until=NOON + timedelta(seconds=3),
    updates=1234,
    byte_count=56_789,
    types=2,
    nodes=1,
    clients=3,
    objects=60,
    lost=40,
    gaps=2,
    latency_ms=0.42,
    datagrams=3000,
    retransmissions=7,
    recovery_ms=12.5,
)
FINDINGS = Findings(
    summary=SUMMARY,
    steps=TimeSteps(first=1_789_992_000, count=4, seconds=1),
    rates=(Line(name="Vessel", values=(1, 2, 3, 4)),),
    latency=Latency(p50=(1.0,) * 4, p90=(2.0,) * 4, p99=(3.0,) * 4, is_exact=True),
    lost=(0, 40, 0, 0),
    sessions=(
        SessionRow(
            kind="client",
            name="tracker",
            first=NOON,
            last=NOON + timedelta(seconds=1),
            until=NOON + timedelta(seconds=1),
            ended="connection closed",
            updates=5,
            published=("Vessel",),
        ),
    ),
    sessions_left_out=7,
    alarms=(
        AlarmRow(
            kind="storm",
            who="type Vessel",
            since=NOON,
            until=NOON + timedelta(minutes=1),
            score=41.25,
            evidence="9,000 updates in a minute",
        ),
    ),
    delays=(
        Delay(
            who="tracker",
            updates=5,
            p50_ms=2.0,
            p90_ms=1500.0,
            p99_ms=1600.0,
            max_ms=1700.0,
            slow_minutes=1,
            minutes=3,
        ),
    ),
    node_links=(
        LinkOfNodes(
            sender="crane",
            receiver="quay",
            datagrams=4321,
            byte_count=None,
            retransmissions=17,
            round_trip_ms=0.25,
            lag_ms=None,
        ),
    ),
    subjects=(Subject(name="/Vessel/1", updates=9), Subject(name="/Vessel/2", updates=3)),
    tables=(TableSize(name="updates/Vessel", rows=1234, files=2, byte_count=99_000),),
)


class Reader(HTMLParser):
    """Takes a page apart as a browser would."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        # A narrow space inside a number does not end a word.
        return re.sub(r"[ \n]+", " ", " ".join(self.words))


def read(findings: Findings) -> Reader:
    reader = Reader()
    reader.feed(page(findings, made=NOON + timedelta(hours=1)))
    return reader


def test_the_page_shows_all_findings() -> None:
    text = read(FINDINGS).text
    for words in (
        "What happened in local",
        "2026-09-21 12:00:00 to 12:00:03, 3 s",
        "1\u202f234",
        "56.8 KB",
        "0.42 ms",
        "steps of a second",
        "at the start of their gap; 2 gaps in all.",
        "7 of 3\u202f000 datagrams had to be sent again, which took 12.5 ms on average.",
        "slowest hundredth of all updates",
        "tracker",
        "7 more are in the table sessions",
        "storm",
        "9,000 updates in a minute",
        "/Vessel/1",
        "updates/Vessel",
        "99 KB",
        "Links between nodes",
        "crane quay 4\u202f321 17 0.25",
        "Slow programs",
        "1 of 3",
        "its p90 is 1\u202f000 ms or more",
        "Internal types and skerry's own tools are left out.",
    ):
        assert words in text, words
    assert "are left out" not in read(replace(FINDINGS, has_own=True)).text


def test_a_program_that_is_connected_and_silent_is_not_drawn_as_gone() -> None:
    gone = page(FINDINGS, made=NOON)
    assert 'class="bar silent' not in gone
    (session,) = FINDINGS.sessions
    silent = replace(session, ended=None, until=NOON + timedelta(seconds=3))
    text = page(replace(FINDINGS, sessions=(silent,)), made=NOON)
    assert 'class="bar silent client" style="left:0.000%;width:100.000%"' in text
    assert "connected and silent up to 2026-09-21 12:00:03" in text
    assert "bar client ended" not in text


def test_page_needs_nothing_and_runs_nothing() -> None:
    text = page(FINDINGS, made=NOON)
    reader = read(FINDINGS)
    assert not {"script", "img", "link", "iframe", "object"} & set(reader.tags)
    assert not [name for name in reader.attributes if name.startswith("on")]
    assert "default-src &#x27;none&#x27;" in text or "default-src 'none'" in text
    loaded = re.findall(r'(?:src|href)="(?!#)([^"]*)"', text)
    assert loaded == []


def test_names_are_nothing_but_text() -> None:
    hostile = replace(
        FINDINGS,
        summary=replace(SUMMARY, spaces=(HOSTILE,)),
        rates=(Line(name=HOSTILE, values=(1, 2, 3, 4)),),
        sessions=(
            replace(FINDINGS.sessions[0], name=HOSTILE, published=(HOSTILE,), ended=HOSTILE),
        ),
        alarms=(replace(FINDINGS.alarms[0], kind=HOSTILE, who=HOSTILE, evidence=HOSTILE),),
        delays=(replace(FINDINGS.delays[0], who=HOSTILE),),
        node_links=(replace(FINDINGS.node_links[0], sender=HOSTILE, receiver=HOSTILE),),
        subjects=(Subject(name=HOSTILE, updates=1),),
        tables=(replace(FINDINGS.tables[0], name=HOSTILE),),
    )
    calm, reader = read(FINDINGS), read(hostile)
    assert reader.tags.count("script") == 0
    assert reader.attributes == calm.attributes
    assert reader.text.count("alert('x')") >= 5, "it is shown, not run"
    assert "\x1b" not in reader.text
    assert "\u202e" not in reader.text


def test_long_names_are_cut() -> None:
    text = read(replace(FINDINGS, subjects=(Subject(name="/" + "x" * 5000, updates=1),))).text
    assert "x" * 100 in text
    assert "x" * 200 not in text


def test_a_page_without_loss_and_alarms_states_it() -> None:
    calm = replace(
        FINDINGS,
        summary=replace(SUMMARY, lost=0, gaps=0, byte_count=None, latency_ms=None, datagrams=None),
        latency=None,
        alarms=(),
        sessions=(),
        subjects=(),
        rates=(),
        tables=(),
    )
    text = read(calm).text
    assert "No updates are known to be missing." in text
    assert "There are no alarms." in text
    assert "the latency is unknown" in text
    assert "Busiest" not in text


def test_nothing_recorded_is_a_page_too() -> None:
    text = read(Findings(summary=None)).text
    assert "There are no updates in these tables." in text


def test_pages_of_large_recordings_name_the_base_of_their_figures() -> None:
    assert FINDINGS.latency is not None
    large = replace(FINDINGS, are_prefixes=True, latency=replace(FINDINGS.latency, is_exact=False))
    text = read(large).text
    assert "First levels of subjects" in text
    assert "of the median sender" in text


def test_gaps_of_unknown_size_are_not_shown_as_zero() -> None:
    text = read(replace(FINDINGS, summary=replace(SUMMARY, lost=0, gaps=1))).text
    assert "An unknown number of updates is missing in 1 gap." in text
    assert "some updates missing" in text
    assert "No updates are known to be missing." not in text


def test_retransmissions_are_shown_if_they_were_recorded() -> None:
    calm = read(replace(FINDINGS, summary=replace(SUMMARY, retransmissions=0))).text
    assert "None of 3\u202f000 datagrams had to be sent again." in calm
    untimed = read(replace(FINDINGS, summary=replace(SUMMARY, recovery_ms=None))).text
    assert "7 of 3\u202f000 datagrams had to be sent again." in untimed


def test_a_written_page_replaces_the_previous_one(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("old", encoding="utf-8")
    size = TableSize(name="raw", rows=3, files=1, byte_count=99)
    write_page(Findings(summary=None, tables=(size,)), path, made=NOON)
    text = path.read_text(encoding="utf-8")
    assert f"report of {NOON:%Y-%m-%d %H:%M:%S}" in text
    assert "99 B" in text
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
