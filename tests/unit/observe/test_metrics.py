"""Metrics: values of a scrape, limited labels, documentation."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from skerry.durations import DurationCounter
from skerry.engine.dispatch.ledger import (
    ClientRow,
    LedgerRow,
    NodeStatistics,
    RequestCounts,
    TypeRow,
)
from skerry.engine.node import NodeCore
from skerry.observe.metrics import (
    GROUP_METRICS,
    METRIC_TYPE_COUNT_MAX,
    METRICS,
    NodeCollector,
    node_registry,
    scrape,
)
from skerry.observe.number_metrics import PIPELINE_METRICS, RECORDER_METRICS
from skerry.observe.portal_metrics import PORTAL_METRICS
from skerry.observe.system_metrics import SYSTEM_METRICS

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def statistics(
    *,
    types: tuple[TypeRow, ...] = (),
    clients: tuple[ClientRow, ...] = (),
    ends: dict[str, int] | None = None,
    refusals: dict[str, int] | None = None,
) -> NodeStatistics:
    return NodeStatistics(
        started_ns=1,
        client_count=len(clients),
        type_count=5,
        group_count=4,
        object_count=3,
        payload_bytes=30,
        received_count=10,
        received_bytes=100,
        sent_count=20,
        sent_bytes=200,
        accepted_count=9,
        conflict_count=1,
        storage_waiting_count=2,
        storage_trouble="disk full",
        ends=ends or {},
        refusals=refusals or {},
        clients=clients,
        types=types,
    )


def type_row(name: str, *, accepted: int = 1, ledger: LedgerRow | None = None) -> TypeRow:
    row = ledger or LedgerRow()
    return TypeRow(name=name, object_count=2, accepted=accepted, member_count=1, ledger=row)


def client_row(client_id: int, *, kind: str = "tcp", queued_bytes: int = 0) -> ClientRow:
    return ClientRow(
        client_id=client_id,
        name=f"client {client_id}",
        kind=kind,
        host="127.0.0.1",
        stage="connected",
        received_count=0,
        received_bytes=0,
        accepted=0,
        refused_count=0,
        sent_count=0,
        sent_bytes=0,
        queued_count=0,
        queued_bytes=queued_bytes,
        queued_bytes_peak=queued_bytes,
        ledger=LedgerRow(),
    )


def scraped(text: bytes) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def samples_of(now: NodeStatistics) -> Samples:
    return scraped(scrape(node_registry(lambda: now)))


def test_totals_are_those_of_the_statistics() -> None:
    samples = samples_of(statistics(clients=(client_row(2, queued_bytes=5), client_row(3))))
    assert samples["skerry_received_messages_total", ()] == 10
    assert samples["skerry_received_bytes_total", ()] == 100
    assert samples["skerry_sent_messages_total", ()] == 20
    assert samples["skerry_sent_bytes_total", ()] == 200
    assert samples["skerry_accepted_updates_total", ()] == 9
    assert samples["skerry_types", ()] == 5
    assert samples["skerry_groups", ()] == 4
    assert samples["skerry_cache_objects", ()] == 3
    assert samples["skerry_cache_payload_bytes", ()] == 30
    assert samples["skerry_type_conflicts_total", ()] == 1
    assert samples["skerry_storage_pending_changes", ()] == 2
    assert samples["skerry_storage_is_failing", ()] == 1
    assert samples["skerry_queued_bytes", ()] == 5
    assert samples["skerry_queued_bytes_max", ()] == 5


def test_clients_are_counted_by_kind_and_never_by_name() -> None:
    rows = (client_row(2), client_row(3), client_row(4, kind="unix"))
    text = scrape(node_registry(lambda: statistics(clients=rows)))
    samples = scraped(text)
    assert samples["skerry_clients", (("door", "tcp"),)] == 2
    assert samples["skerry_clients", (("door", "unix"),)] == 1
    assert b"client 2" not in text


def test_ledger_is_counted_by_type_and_outcome() -> None:
    ledger = LedgerRow(due=21, delivered=1, filtered=2, conflated=3, expired=4, refused=5, queued=6)
    samples = samples_of(statistics(types=(type_row("Boat", accepted=7, ledger=ledger),)))
    boat = (("type", "Boat"),)
    assert samples["skerry_ledger_due_total", boat] == 21
    assert samples["skerry_ledger_queued", boat] == 6
    assert samples["skerry_type_accepted_updates_total", boat] == 7
    assert samples["skerry_type_objects", boat] == 2
    assert samples["skerry_type_members", boat] == 1
    outcomes = ("delivered", "filtered", "conflated", "expired", "refused")
    for count, outcome in enumerate(outcomes, 1):
        label = (("outcome", outcome), ("type", "Boat"))
        assert samples["skerry_ledger_updates_total", label] == count
    assert samples["skerry_ledger_unexplained", ()] == 0


def test_what_is_unexplained_does_not_cancel_out() -> None:
    rows = (
        type_row("Boat", ledger=LedgerRow(due=3)),
        type_row("Buoy", ledger=LedgerRow(delivered=2)),
    )
    assert samples_of(statistics(types=rows))["skerry_ledger_unexplained", ()] == 5


def test_disconnects_and_refusals_are_counted_by_reason() -> None:
    samples = samples_of(statistics(ends={"slow": 2}, refusals={"publish": 3}))
    assert samples["skerry_disconnects_total", (("reason", "slow"),)] == 2
    assert samples["skerry_refusals_total", (("what", "publish"),)] == 3


def test_requests_are_counted_by_outcome() -> None:
    counts = RequestCounts(
        asked=10, ended={"answered": 4, "failed": 1}, abandoned=2, open=3, late=5
    )
    samples = samples_of(replace(statistics(), requests=counts, held_count=6))
    for outcome, count in (("answered", 4), ("failed", 1), ("abandoned", 2)):
        assert samples["skerry_requests_total", (("outcome", outcome),)] == count
    assert samples["skerry_requests_open", ()] == 3
    assert samples["skerry_requests_late_total", ()] == 5
    assert samples["skerry_claims_held", ()] == 6
    assert samples["skerry_ledger_unexplained", ()] == 0


def test_unaccounted_request_is_unexplained() -> None:
    now = replace(statistics(), requests=RequestCounts(asked=2, open=1))
    assert samples_of(now)["skerry_ledger_unexplained", ()] == 1


def test_only_the_busiest_types_have_metrics_of_their_own() -> None:
    count = METRIC_TYPE_COUNT_MAX + 3
    rows = tuple(type_row(f"T{number}", accepted=number) for number in range(count))
    samples = samples_of(statistics(types=rows))
    values = {
        dict(labels)["type"]: value
        for (name, labels), value in samples.items()
        if name == "skerry_type_accepted_updates_total"
    }
    assert len(values) == METRIC_TYPE_COUNT_MAX + 1
    assert values["other"] == 0 + 1 + 2
    assert values[f"T{count - 1}"] == count - 1


def test_type_keeps_its_metric_when_others_become_busier() -> None:
    rows = [(type_row("Boat", accepted=5), type_row("Buoy", accepted=1))]
    collector = NodeCollector(lambda: statistics(types=rows[-1]), type_count_max=1)

    def accepted() -> dict[str, float]:
        (family,) = [
            family
            for family in collector.collect()
            if family.name == "skerry_type_accepted_updates"
        ]
        return {sample.labels["type"]: sample.value for sample in family.samples}

    assert accepted() == {"Boat": 5, "other": 1}
    rows.append((type_row("Boat", accepted=5), type_row("Buoy", accepted=100)))
    assert accepted() == {"Boat": 5, "other": 100}


def test_real_node_can_be_scraped_with_its_process() -> None:
    core = NodeCore()
    samples = scraped(scrape(node_registry(core.statistics)))
    assert samples["skerry_ledger_unexplained", ()] == 0
    assert samples["process_resident_memory_bytes", ()] > 0
    assert any(name == "skerry_node_info" for name, _ in samples)


def test_latencies_are_histograms_with_cumulative_buckets() -> None:
    counter = DurationCounter()
    for duration_ns in (200_000, 300_000, 20_000_000_000):
        counter.add(duration_ns)
    now = replace(statistics(), requests=RequestCounts(durations=counter.durations()))
    samples = scraped(scrape(node_registry(lambda: now, turns=counter.durations)))
    for name in ("skerry_request_seconds", "skerry_turn_seconds"):
        buckets = [samples[f"{name}_bucket", (("le", le),)] for le in ("0.00025", "10.0", "+Inf")]
        assert buckets == [1, 2, 3]
        assert samples[f"{name}_count", ()] == 3
        assert samples[f"{name}_sum", ()] == 20.0005


def test_every_metric_is_documented_and_no_other() -> None:
    page = Path(__file__).resolve().parents[3] / "docs/reference/metrics.md"
    rows = re.findall(r"^\| `(skerry_\w+)`", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(
        [
            *METRICS,
            *GROUP_METRICS,
            *SYSTEM_METRICS,
            *PORTAL_METRICS,
            *RECORDER_METRICS,
            *PIPELINE_METRICS,
        ]
    )
    made = {family.name for family in NodeCollector(statistics).collect()}
    assert {name.removesuffix("_total") for name in METRICS} == made
