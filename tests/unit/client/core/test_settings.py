"""How a space behaves when nobody says otherwise."""

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


def test_buffers_have_the_usual_bounds() -> None:
    config = SpaceConfig()
    assert config.send_bytes_max == SEND_BYTES_MAX > UPDATE_BYTES_DEFAULT
    assert config.receive_bytes_max == PAYLOAD_BYTES_MAX
    assert config.queue_count_max == EVENT_QUEUE_COUNT_MAX


def test_first_attempt_comes_soon_and_none_is_far_off() -> None:
    config, rng = SpaceConfig(), Random(1)
    delays = [config.reconnect.delay_ns(count, rng) for count in range(1, 50)]
    assert delays[0] <= 100_000_000
    assert max(delays) <= 5_000_000_000


def test_sign_of_life_is_waited_for_less_long_than_it_takes_to_ask() -> None:
    config = SpaceConfig()
    assert config.answer_ns_max < config.idle_ns_max


def test_objects_that_are_read_are_at_most_as_large_as_any_encoded_one() -> None:
    assert SpaceConfig().frame_bytes_max == FRAME_BYTES_MAX
    assert (
        SpaceConfig(receive_bytes_max=100_000).frame_bytes_max == 100_000 + FRAME_HEADER_BYTES_MAX
    )
    with pytest.raises(LimitExceeded, match="receive_bytes_max is"):
        SpaceConfig(receive_bytes_max=PAYLOAD_BYTES_MAX + 1)


def test_name_that_no_node_takes_is_refused_here() -> None:
    SpaceConfig(name="x" * CLIENT_NAME_CHAR_COUNT_MAX)
    with pytest.raises(LimitExceeded, match="the client's name is 257, the limit is 256"):
        SpaceConfig(name="x" * (CLIENT_NAME_CHAR_COUNT_MAX + 1))
