"""Identities, which programs that compare only a sum can distinguish too."""

from __future__ import annotations

import hashlib
import ipaddress
from random import Random

import pytest

from skerry.protocol.distributor.config import Dialect
from skerry.protocol.distributor.identity import (
    SenderIdentity,
    address_bytes,
    draw_identity,
    is_marked,
    java_sum,
    mark_application,
)


def draw(seed: int, **given: object) -> SenderIdentity:
    arguments = {
        "address": b"\x0a\x00\x01\x02",
        "sender_id": 61_234,
        "process_id": 0x12345,
        "wall_ms": 1_794_726_418_298,
        "rng": Random(seed),
    }
    return draw_identity(**{**arguments, **given})  # type: ignore[arg-type]


def test_an_identity_starts_about_now_and_names_host_and_process() -> None:
    identity = draw(1)
    assert 0 <= 1_794_726_418_298 - identity.start_ms < 4096
    assert identity.application_id & 0xFFFF == 0x2345
    assert identity.start(Dialect.JAVA) == identity.start_ms & 0xFFFFFFFF
    assert identity.start(Dialect.PYCAST) == identity.start_ms // 1000


def test_senders_that_start_in_the_same_millisecond_differ_almost_always() -> None:
    assert len({draw(seed).start_ms for seed in range(100)}) > 90


def test_an_application_id_distinguishes_our_programs_from_java_programs() -> None:
    identity = draw(1)
    assert is_marked(identity.address, identity.application_id)
    assert not is_marked(identity.address, 0x01022345), "this is how the Java program makes it"
    assert mark_application(identity.address, 5) != mark_application(identity.address, 6)


def test_a_sum_that_is_in_use_in_the_group_is_not_drawn() -> None:
    first = draw(1)
    other = draw(1, taken_sums={java_sum(first.sender_id, first.start_ms)})
    assert java_sum(other.sender_id, other.start_ms) != java_sum(first.sender_id, first.start_ms)


def test_the_sum_of_java_programs_wraps_and_knows_no_address() -> None:
    assert java_sum(2, 0xFFFFFFFF) == 1
    assert java_sum(61_234, 1000) == java_sum(61_235, 999)


@pytest.mark.parametrize(
    ("host", "packed"),
    [
        ("127.0.0.1", b"\x7f\0\0\x01"),
        ("239.192.7.1", b"\xef\xc0\x07\x01"),
        ("ff02::1%eth0", hashlib.sha256(ipaddress.ip_address("ff02::1").packed).digest()[:4]),
    ],
)
def test_any_address_is_represented_by_four_bytes(host: str, packed: bytes) -> None:
    assert address_bytes(host) == packed
