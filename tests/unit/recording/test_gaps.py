"""Rows that say what is missing."""

from __future__ import annotations

import pytest

from skerry import cbor
from skerry.codec.envelope import GAP
from skerry.errors import RecordingError
from skerry.recording.gaps import Gap, gap_of, gap_update


def test_gap_comes_back_from_its_row() -> None:
    gap = Gap(count=5, first=10, stop=15, reason="disk full", first_ns=100, last_ns=200)
    update = gap_update(gap, space="local", type_name="Vessel", sender=3, node=-9)
    assert gap_of(update.payload) == gap
    assert (update.operation, update.time_ns, update.space) == (GAP, 100, "local")
    assert (update.type_name, update.sender, update.node) == ("Vessel", 3, -9)
    assert (update.subject, update.key, update.present) == ("", b"", 0)


def test_payload_is_a_map_others_can_read() -> None:
    gap = Gap(count=5, first=10, stop=15, reason="disk full", first_ns=100, last_ns=200)
    payload = gap_update(gap, space="local").payload
    assert cbor.loads(payload) == {1: 5, 2: 10, 3: 15, 4: "disk full", 5: 100, 6: 200}


def test_joined_gaps_reach_from_the_first_to_the_last() -> None:
    early = Gap(count=5, first=10, stop=15, reason="disk full", first_ns=100, last_ns=200)
    late = Gap(count=2, first=20, stop=22, reason="other", first_ns=90, last_ns=300)
    joined = early.joined(late)
    assert joined == Gap(count=7, first=10, stop=22, reason="disk full", first_ns=90, last_ns=300)


def test_unknown_positions_do_not_become_known_by_joining() -> None:
    unknown = Gap(count=1, first_ns=1, last_ns=1)
    known = Gap(count=1, first=7, stop=8, first_ns=2, last_ns=2)
    assert unknown.joined(unknown).stop == 0
    assert (unknown.joined(known).first, unknown.joined(known).stop) == (7, 8)


@pytest.mark.parametrize(
    "payload", [b"", b"\xff", b"\x80", b"\x01", cbor.dumps({1: "many"}), cbor.dumps({4: 7})]
)
def test_what_does_not_say_what_is_missing_is_an_error(payload: bytes) -> None:
    with pytest.raises(RecordingError, match="gap row"):
        gap_of(payload)


def test_facts_that_are_not_there_are_unknown() -> None:
    assert gap_of(cbor.dumps({1: 3})) == Gap(count=3)
