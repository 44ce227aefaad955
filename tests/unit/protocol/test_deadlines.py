"""Timers as data: order, replacement, and that forgotten ones do not pile up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.deadlines import Deadlines


def test_without_deadlines_nothing_is_next() -> None:
    deadlines: Deadlines[str] = Deadlines()
    assert deadlines.next_ns() is None
    assert deadlines.take_due(10**18) == []
    assert len(deadlines) == 0


def test_the_earliest_deadline_is_next_and_only_due_ones_are_taken() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("late", 30)
    deadlines.set("early", 10)
    deadlines.set("middle", 20)
    assert deadlines.next_ns() == 10
    assert deadlines.take_due(20) == [("early", 10), ("middle", 20)]
    assert deadlines.next_ns() == 30
    assert "late" in deadlines
    assert "early" not in deadlines


def test_a_deadline_is_due_at_its_nanosecond_and_not_before() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    assert deadlines.take_due(9) == []
    assert deadlines.take_due(10) == [("a", 10)]


def test_setting_again_replaces_and_cancelling_forgets() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 50)
    deadlines.set("b", 20)
    deadlines.cancel("b")
    deadlines.cancel("never set")
    assert deadlines.next_ns() == 50
    assert deadlines.take_due(100) == [("a", 50)]


def test_equal_deadlines_fall_due_in_the_order_they_were_set() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key in ("c", "a", "b"):
        deadlines.set(key, 10)
    assert [key for key, _ in deadlines.take_due(10)] == ["c", "a", "b"]


def test_a_deadline_that_is_always_postponed_does_not_grow_the_heap() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for now_ns in range(10_000):
        deadlines.set("a", now_ns + 1000)
    assert len(deadlines._heap) <= 2 * 1 + 64 + 1
    assert deadlines.take_due(20_000) == [("a", 9_999 + 1000)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["set", "cancel", "take"]), st.integers(0, 5), st.integers(0, 20)
        ),
        max_size=200,
    )
)
def test_deadlines_behave_like_a_plain_dictionary(steps: list[tuple[str, int, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    model: dict[int, int] = {}
    for step, key, time_ns in steps:
        if step == "set":
            deadlines.set(key, time_ns)
            model[key] = time_ns
        elif step == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            due = {key: due_ns for key, due_ns in model.items() if due_ns <= time_ns}
            taken = deadlines.take_due(time_ns)
            assert dict(taken) == due
            assert [due_ns for _, due_ns in taken] == sorted(due.values())
            model = {key: due_ns for key, due_ns in model.items() if key not in due}
        assert deadlines.next_ns() == min(model.values(), default=None)
        assert len(deadlines) == len(model)
