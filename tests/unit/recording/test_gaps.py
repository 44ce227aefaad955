"""Gap rows."""

from __future__ import annotations

import pytest

from skerry import cbor
from skerry.codec.envelope import CREATE, GAP
from skerry.errors import RecordingError
from skerry.recording.gaps import (
    RECORDING_GAP_COUNT_MAX,
    Gap,
    Missing,
    gap_of,
    gap_update,
    readable_gap,
)
from skerry.recording.rows import Rows


def test_gap_is_read_back_from_its_row() -> None:
    gap = Gap(count=5, first=10, stop=15, reason="disk full", first_ns=100, last_ns=200)
    update = gap_update(gap, space="local", type_name="Vessel", sender=3, node=-9)
    assert gap_of(update.payload) == gap
    assert (update.operation, update.time_ns, update.space) == (GAP, 100, "local")
    assert (update.type_name, update.sender, update.node) == ("Vessel", 3, -9)
    assert (update.subject, update.key, update.present) == ("", b"", 0)


def test_payload_is_a_cbor_map() -> None:
    gap = Gap(count=5, first=10, stop=15, reason="disk full", first_ns=100, last_ns=200)
    payload = gap_update(gap, space="local").payload
    assert cbor.loads(payload) == {1: 5, 2: 10, 3: 15, 4: "disk full", 5: 100, 6: 200}


def test_joined_gaps_cover_both_ranges() -> None:
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
def test_invalid_payload_of_a_gap_is_an_error(payload: bytes) -> None:
    with pytest.raises(RecordingError, match="gap row"):
        gap_of(payload)


def test_missing_facts_are_unknown() -> None:
    assert gap_of(cbor.dumps({1: 3})) == Gap(count=3)


def test_gap_with_an_invalid_payload_is_still_a_gap() -> None:
    gap = readable_gap(b"\xff")
    assert gap.count == 0
    assert "is invalid" in gap.reason
    assert readable_gap(cbor.dumps({1: 3})) == Gap(count=3)


def rows_of(*places: tuple[int, int], gaps: tuple[Gap, ...] = ()) -> Rows:
    """Rows with these nodes and positions, and gaps of sender 4 at node 9."""
    rows = Rows()
    for node, position in places:
        rows.append(
            "Vessel", "/Vessel/1", CREATE, 2, b"", b"", "local", 5, 2, node, 1, position, -1,
            1000 + position, "access",
        )  # fmt: skip
    for gap in gaps:
        rows.append_update(gap_update(gap, space="local", node=9, sender=4))
    return rows


def dropped(**facts: int) -> Gap:
    return Gap(**facts, reason="full", is_dropped=True)


def test_given_up_rows_become_a_gap_per_node_with_count_and_range() -> None:
    missing = Missing()
    lost = Gap(count=3, first=10, stop=13, reason="lost", first_ns=5, last_ns=6)
    assert missing.leave_out(rows_of((7, 2), (8, 9), gaps=(lost,)).take(), "full") == 2
    assert missing.leave_out(rows_of((7, 5), (7, 0)).take(), "full") == 2
    found = {(row.node, row.sender): gap_of(row.payload) for row in missing.updates(space="local")}
    assert found == {
        (7, 0): dropped(count=3, first=2, stop=6, first_ns=1000, last_ns=1005),
        (8, 0): dropped(count=1, first=9, stop=10, first_ns=1009, last_ns=1009),
        (9, 4): lost,
    }
    assert (len(missing), missing.first_ns) == (3, 5)
    missing.clear()
    assert (len(missing), missing.first_ns, missing.updates(space="local")) == (0, 0, [])


def test_beyond_the_limit_the_rest_is_one_gap_without_a_range() -> None:
    missing = Missing(gap_count_max=2)
    for node in (7, 8, 9, 7):
        missing.add(Gap(count=1, first=5, stop=6, first_ns=node, last_ns=node), node=node)
    kept, rest = missing.updates(space="local")
    assert (kept.node, gap_of(kept.payload).count, gap_of(kept.payload).stop) == (7, 2, 6)
    assert (rest.node, gap_of(rest.payload)) == (0, Gap(count=2, first_ns=8, last_ns=9))


def test_default_limit_of_gaps_is_that_of_recordings() -> None:
    missing = Missing()
    for node in range(1, RECORDING_GAP_COUNT_MAX + 10):
        missing.add(Gap(count=1), node=node)
    assert len(missing) == RECORDING_GAP_COUNT_MAX
