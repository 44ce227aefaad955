"""Pending connections: their limits, and which connection is removed."""

from __future__ import annotations

from skerry.engine.admission.pending_connections import PendingConnections


def test_connections_stay_until_they_leave() -> None:
    pending: PendingConnections[int] = PendingConnections(count_max=10, per_host_count_max=10)
    assert [pending.add(guest, f"host {guest % 2}") for guest in range(4)] == [None] * 4
    assert sorted(pending.waiting()) == [0, 1, 2, 3]
    pending.remove(2, "host 0")
    pending.remove(2, "host 0")
    pending.remove(7, "nowhere")
    assert sorted(pending.waiting()) == [0, 1, 3]
    assert len(pending) == 3


def test_the_oldest_connection_of_a_host_is_removed_at_its_limit() -> None:
    pending: PendingConnections[str] = PendingConnections(count_max=10, per_host_count_max=2)
    pending.add("other", "b")
    assert [pending.add(guest, "a") for guest in ("1", "2", "3", "4")] == [None, None, "1", "2"]
    assert sorted(pending.waiting()) == ["3", "4", "other"]
    # Who had to go has left.
    pending.remove("1", "a")
    assert len(pending) == 3


def test_the_oldest_connection_of_the_largest_host_is_removed_at_the_total_limit() -> None:
    pending: PendingConnections[str] = PendingConnections(count_max=4, per_host_count_max=3)
    for guest in ("b1", "a1", "a2", "a3"):
        assert pending.add(guest, guest[0]) is None
    assert pending.add("c1", "c") == "a1"
    assert pending.add("a4", "a") == "a2"
    assert sorted(pending.waiting()) == ["a3", "a4", "b1", "c1"]


def test_the_connection_that_waited_longest_can_be_removed() -> None:
    pending: PendingConnections[str] = PendingConnections()
    assert pending.remove_oldest() is None
    for guest in ("b1", "a1", "a2", "a3"):
        assert pending.add(guest, guest[0]) is None
    assert [pending.remove_oldest(), pending.remove_oldest("b"), pending.remove_oldest("b")] == [
        "a1",
        "b1",
        None,
    ]
    assert sorted(pending.waiting()) == ["a2", "a3"]


def test_a_host_may_be_limited_to_one_connection() -> None:
    pending: PendingConnections[int] = PendingConnections(count_max=1, per_host_count_max=1)
    assert [pending.add(guest, "a") for guest in range(3)] == [None, 0, 1]
    assert pending.add(3, "b") == 2
    assert pending.waiting() == [3]
    pending.remove(3, "b")
    assert len(pending) == 0
    assert pending._hosts == {}
