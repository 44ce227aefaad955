"""The overview for monitoring programs: encoded, decoded, and refused if malformed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skerry.errors import DecodeError
from skerry.protocol.distributor.overview import (
    NAME_BYTES_MAX,
    OVERVIEW,
    OVERVIEW_BYTES_MAX,
    Overview,
    shortened,
)
from tests.overviews import read_overview

SEEN = Overview(
    application="feed",
    distributor_id=-5,
    start_time="07:11:55.798",
    address="127.0.0.1",
    host=None,
    tcp_port=44_593,
    publisher_count=1,
    subscriber_count=2,
    connection_count=3,
    requests_sent_count=4,
    requests_received_count=5,
    subscription_count=6,
)


def test_encoded_messages_decode_to_equal_ones() -> None:
    data = SEEN.encode()
    assert data[:4] == OVERVIEW.to_bytes(4, "big")
    assert read_overview(data) == SEEN
    assert len(data) < OVERVIEW_BYTES_MAX


def test_a_cut_or_longer_or_other_message_is_refused() -> None:
    data = SEEN.encode()
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            read_overview(data[:size])
    for wrong in (data + b"\0", b"\0\1\0\2" + data[4:]):
        with pytest.raises(DecodeError):
            read_overview(wrong)


def test_two_programs_differ() -> None:
    assert replace(SEEN, host="vm").encode() != SEEN.encode()


def test_long_names_are_shortened_so_that_all_is_read() -> None:
    name = shortened("å" * 500)
    assert len(name.encode()) == NAME_BYTES_MAX
    assert shortened("xå" * 500).encode() == ("xå" * 60).encode()
    address = "ffff:" * 7 + "255.255.255.255"
    full = replace(SEEN, application=name, host=name, address=address)
    assert len(full.encode()) <= OVERVIEW_BYTES_MAX
    assert shortened("short") == "short"
