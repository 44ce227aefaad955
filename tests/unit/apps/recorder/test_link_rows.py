"""Rows about links: whole objects of an internal type, from time to time, if they are wanted."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.apps.recorder import link_rows as recorder_links
from skerry.apps.recorder.link_rows import LINK_INTERVAL_NS, LinkRows, round_trip
from skerry.apps.recorder.row_queue import RowQueue
from skerry.objects.internal import internal_class
from skerry.recording.format import to_record_batch
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types


def test_a_link_is_a_row_like_any_object() -> None:
    queue = RowQueue(space="here", row_count_max=10)
    rows = LinkRows(queue, space="here")
    link = round_trip(client_id=7, name="recorder", node="tcp:x", taken_ns=2_500_000)
    rows.write(link, sender=7, node=99)
    (row,) = to_record_batch(queue.rows.take()).to_pylist()
    assert (row["type"], row["space"], row["source"]) == ("SkerryLink", "here", "internal")
    assert (row["sender"], row["node"], row["sequence"], row["position"]) == (7, 99, 0, 0)
    assert row["subject"] == "/SkerryLink/recorder/tcp%3Ax"
    assert row["fingerprint"] == fingerprint(internal_types()["SkerryLink"])
    messages: Any = internal_class("SkerryLink").decode(row["payload"])
    assert messages == link
    assert messages.roundTripTime == pytest.approx(0.0025)
    assert row["present"] == int(link.attributes)


def test_unwanted_links_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = RowQueue(space="here", row_count_max=10)
    rows = LinkRows(queue, space="here", is_wanted=False)
    rows.write(round_trip(client_id=7, name="r", node="n", taken_ns=1), sender=7, node=99)
    assert queue.rows.count == 0
    monkeypatch.setattr(recorder_links, "monotonic_ns", lambda: 1 << 62)
    assert not rows.is_due()


def test_it_is_time_once_in_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 1000
    monkeypatch.setattr(recorder_links, "monotonic_ns", lambda: now_ns)
    rows = LinkRows(RowQueue(space="here", row_count_max=10), space="here")
    found = []
    for step in (LINK_INTERVAL_NS - 1, 1, 1, LINK_INTERVAL_NS - 1):
        now_ns += step
        found.append(rows.is_due())
    assert found == [False, True, False, True]
