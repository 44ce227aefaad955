"""The default configuration of a space."""

from __future__ import annotations

from random import Random

import pytest

from skerry.client.core.settings import SpaceConfig
from skerry.errors import LimitExceeded
from skerry.limits import (
    CLIENT_NAME_CHAR_COUNT_MAX,
    EVENT_QUEUE_COUNT_MAX,
    FRAME_BYTES_MAX,
    FRAME_HEADER_BYTES_MAX,
    PAYLOAD_BYTES_MAX,
    SEND_BYTES_MAX,
    UPDATE_BYTES_DEFAULT,
)


def test_buffers_have_the_default_limits() -> None:
    config = SpaceConfig()
    assert config.send_bytes_max == SEND_BYTES_MAX > UPDATE_BYTES_DEFAULT
    assert config.receive_bytes_max == PAYLOAD_BYTES_MAX
    assert config.queue_count_max == EVENT_QUEUE_COUNT_MAX


def test_reconnect_delays_are_short_at_first_and_limited() -> None:
    config, rng = SpaceConfig(), Random(1)
    delays = [config.reconnect.delay_ns(count, rng) for count in range(1, 50)]
    assert delays[0] <= 100_000_000
    assert max(delays) <= 5_000_000_000


def test_answer_timeout_is_shorter_than_the_idle_interval() -> None:
    config = SpaceConfig()
    assert config.answer_ns_max < config.idle_ns_max


def test_receive_limit_is_at_most_the_encoding_limit() -> None:
    assert SpaceConfig().frame_bytes_max == FRAME_BYTES_MAX
    assert (
        SpaceConfig(receive_bytes_max=100_000).frame_bytes_max == 100_000 + FRAME_HEADER_BYTES_MAX
    )
    with pytest.raises(LimitExceeded, match="receive_bytes_max is"):
        SpaceConfig(receive_bytes_max=PAYLOAD_BYTES_MAX + 1)


def test_name_that_is_too_long_is_rejected_locally() -> None:
    SpaceConfig(name="x" * CLIENT_NAME_CHAR_COUNT_MAX)
    with pytest.raises(LimitExceeded, match="the client's name is 257, the limit is 256"):
        SpaceConfig(name="x" * (CLIENT_NAME_CHAR_COUNT_MAX + 1))
