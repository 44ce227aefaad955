"""Those who are no clients yet: how many there are, and who has to go."""

from __future__ import annotations

from skerry.engine.admission.pending_connections import PendingConnections


def test_all_are_there_until_they_leave() -> None:
    room: PendingConnections[int] = PendingConnections(count_max=10, per_host_count_max=10)
    assert [room.enter(guest, f"host {guest % 2}") for guest in range(4)] == [None] * 4
    assert sorted(room.guests()) == [0, 1, 2, 3]
    room.leave(2, "host 0")
    room.leave(2, "host 0")
    room.leave(7, "nowhere")
    assert sorted(room.guests()) == [0, 1, 3]
    assert len(room) == 3


def test_oldest_of_a_host_goes_when_it_has_too_many() -> None:
    room: PendingConnections[str] = PendingConnections(count_max=10, per_host_count_max=2)
    room.enter("other", "b")
    assert [room.enter(guest, "a") for guest in ("1", "2", "3", "4")] == [None, None, "1", "2"]
    assert sorted(room.guests()) == ["3", "4", "other"]
    # Who had to go has left.
    room.leave("1", "a")
    assert len(room) == 3


def test_oldest_of_the_host_with_most_goes_when_all_are_too_many() -> None:
    room: PendingConnections[str] = PendingConnections(count_max=4, per_host_count_max=3)
    for guest in ("b1", "a1", "a2", "a3"):
        assert room.enter(guest, guest[0]) is None
    assert room.enter("c1", "c") == "a1"
    assert room.enter("a4", "a") == "a2"
    assert sorted(room.guests()) == ["a3", "a4", "b1", "c1"]


def test_the_one_that_waited_longest_can_be_turned_out() -> None:
    room: PendingConnections[str] = PendingConnections()
    assert room.turn_out() is None
    for guest in ("b1", "a1", "a2", "a3"):
        assert room.enter(guest, guest[0]) is None
    assert [room.turn_out(), room.turn_out("b"), room.turn_out("b")] == ["a1", "b1", None]
    assert sorted(room.guests()) == ["a2", "a3"]


def test_host_may_have_one_place_only() -> None:
    room: PendingConnections[int] = PendingConnections(count_max=1, per_host_count_max=1)
    assert [room.enter(guest, "a") for guest in range(3)] == [None, 0, 1]
    assert room.enter(3, "b") == 2
    assert room.guests() == [3]
    room.leave(3, "b")
    assert len(room) == 0
    assert room._hosts == {}
