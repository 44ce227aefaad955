"""The benchmark of the distributor: real processes, for a moment."""

from __future__ import annotations

import socket

import pytest

from skerry.apps.distributor_bench import BenchPlan, run_bench
from skerry.client.distributor.config import Config
from skerry.errors import SkerryError


def free_group() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return f"239.255.77.9:{probe.getsockname()[1]}"


@pytest.mark.slow
@pytest.mark.parametrize("in_batches", [False, True])
def test_all_is_delivered_and_measured(in_batches: bool) -> None:
    config = Config(
        interface="127.0.0.1",
        ttl=0,
        holdback_delay_ms=5,
        socket_buffer_bytes=8_000_000,
        request_timeout_ms=100,
        cache_bytes_max=100_000_000,
        delivery="inline",
    )
    plan = BenchPlan(
        group=free_group(), config=config, seconds=0.2, subscriber_count=2, in_batches=in_batches
    )
    result = run_bench(plan)
    assert result.sent_count > 0
    assert result.received_count == 2 * result.sent_count
    assert result.rate > 0
    assert result.publisher_cpu_us > 0
    assert result.subscriber_cpu_us > 0
    assert result.datagram_count > 0


@pytest.mark.slow
def test_failure_of_a_process_is_reported() -> None:
    plan = BenchPlan(group="10.0.0.1:1", config=Config(interface="127.0.0.1"))
    with pytest.raises(SkerryError, match="multicast group"):
        run_bench(plan)


@pytest.mark.slow
@pytest.mark.parametrize("look_count", [0, 30])
def test_stop_ends_the_benchmark_early_with_results(look_count: int) -> None:
    config = Config(interface="127.0.0.1", ttl=0, holdback_delay_ms=5, delivery="inline")
    looks = iter(range(10_000))
    plan = BenchPlan(group=free_group(), config=config, seconds=3600)
    result = run_bench(plan, lambda: next(looks) > look_count)
    assert result.received_count == result.sent_count
    assert result.seconds < 60
