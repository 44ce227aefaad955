"""Parameters: the defaults of the specification, and invalid values."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.errors import ConfigError
from skerry.limits import DATAGRAM_BYTES_MAX, DISTRIBUTOR_INTERVAL_MS_MAX, UPDATE_BYTES_DEFAULT
from skerry.protocol.distributor.config import (
    BANDWIDTH_MBIT_MIN,
    Dialect,
    DistributorConfig,
    LossPolicy,
)


def test_the_defaults_are_those_of_the_specification() -> None:
    config = DistributorConfig()
    assert (config.ttl, config.segment_bytes, config.control_bytes) == (1, 0, 512)
    assert (config.heartbeat_interval_ms, config.heartbeat_lost_count_max) == (3000, 10)
    assert (config.configuration_interval_ms, config.configuration_lost_count_max) == (3000, 3)
    assert (config.holdback_delay_ms, config.holdback_threshold_per_s) == (0, 200)
    assert (config.bandwidth_bit_max, config.flow_interval_ms) == (0, 250)
    assert (config.request_timeout_ms, config.request_retry_count_max) == (800, 10)
    assert (config.request_delay_ms_max, config.server_holdback_ms) == (20, 20)
    assert (config.cache_bytes_max, config.cache_age_s) == (10_000_000, 60)
    assert config.cache_clean_interval_ms == 2000
    assert (config.nagging_window_ms, config.nagging_check_ms) == (4000, 60_000)
    assert config.nagging_request_count_max == 200
    assert config.delivery_queue_count_max == 100_000
    assert (config.fake_send_loss_permille, config.fake_receive_loss_permille) == (0, 0)
    assert config.dialect is Dialect.JAVA
    assert config.loss_policy is LossPolicy.SKIP


@pytest.mark.parametrize(
    ("given", "bits"),
    [
        ({}, 0),
        ({"bandwidth_mbit_max": 0.001}, 250_000),
        ({"bandwidth_mbit_max": BANDWIDTH_MBIT_MIN}, 250_000),
        ({"bandwidth_mbit_max": 10.0}, 10_000_000),
        ({"bandwidth_kbit_max": 1}, 250_000),
        ({"bandwidth_kbit_max": 512}, 512_000),
    ],
)
def test_a_bandwidth_is_never_below_the_floor_unless_there_is_no_limit(
    given: dict[str, Any], bits: int
) -> None:
    assert DistributorConfig(**given).bandwidth_bit_max == bits


def test_a_bandwidth_has_one_unit_only() -> None:
    with pytest.raises(ConfigError, match="bandwidth_mbit_max is set as well"):
        DistributorConfig(bandwidth_mbit_max=1.0, bandwidth_kbit_max=1)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("segment_bytes", DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MAX + 1),
        ("segment_bytes", 128, 127),
        ("update_bytes_max", UPDATE_BYTES_DEFAULT, UPDATE_BYTES_DEFAULT + 1),
        ("heartbeat_interval_ms", DISTRIBUTOR_INTERVAL_MS_MAX, DISTRIBUTOR_INTERVAL_MS_MAX + 1),
        ("heartbeat_interval_ms", 1, 0),
        ("ttl", 255, 256),
        ("fake_send_loss_permille", 1000, 1001),
        ("nagging_window_ms", 0, -1),
    ],
)
def test_a_value_out_of_range_is_refused_with_its_name(name: str, good: int, bad: int) -> None:
    assert getattr(DistributorConfig(**{name: good}), name) == good  # type: ignore[arg-type]
    with pytest.raises(ConfigError) as caught:
        DistributorConfig(**{name: bad})  # type: ignore[arg-type]
    assert caught.value.key == f"distributor.{name}"
    assert str(bad) in str(caught.value)


@pytest.mark.parametrize("name", ["application", "host"])
def test_a_name_that_does_not_fit_a_control_message_is_refused(name: str) -> None:
    DistributorConfig(**{name: "n" * 128})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="129 bytes; the limit is 128"):
        DistributorConfig(**{name: "n" * 129})  # type: ignore[arg-type]
