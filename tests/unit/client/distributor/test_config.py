"""Parameters of a connection."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from skerry.client.distributor.config import Config, with_fields
from skerry.errors import ConfigError
from skerry.protocol.distributor.config import DistributorConfig


def test_all_parameters_of_the_protocol_are_there() -> None:
    names = {field.name for field in dataclasses.fields(Config)}
    assert {field.name for field in dataclasses.fields(DistributorConfig)} < names


def test_fields_replace_those_of_a_configuration() -> None:
    config = Config(ttl=3, application="feed")
    assert with_fields(config, {"ttl": 4}) == Config(ttl=4, application="feed")
    assert with_fields(None, {}) == Config()


def test_unknown_field_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="no such parameter") as caught:
        with_fields(None, {"interfaces": "lo"})
    assert caught.value.hint == "did you mean interface?"
    with pytest.raises(ConfigError) as caught:
        with_fields(None, {"qqqqqq": 1})
    assert "Config" in str(caught.value.hint)


@pytest.mark.parametrize(
    "fields",
    [
        {"delivery": "later"},
        {"on_slow": "cry"},
        {"management_interval_ms": 0},
        {"management_interval_ms": 3_600_001},
        {"read_thread_count": 2},
        {"ttl": 256},
    ],
)
def test_invalid_values_are_rejected(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Config(**fields)


def test_an_hour_between_two_overviews_is_allowed() -> None:
    assert Config(management_interval_ms=3_600_000).management_interval_ms == 3_600_000
