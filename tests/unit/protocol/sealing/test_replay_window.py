"""The replay window: no counter is accepted twice, whatever the order, and memory is bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.sealing.opener import REPLAY_COUNT_MAX, ReplayWindow


@given(st.lists(st.integers(0, 1 << 64), max_size=100))
def test_each_counter_is_accepted_once(counters: list[int]) -> None:
    window = ReplayWindow()
    assert [window.accept(one) for one in counters] == [
        one not in counters[:index] for index, one in enumerate(counters)
    ]
    assert window.highest == max(counters, default=0)


def test_what_could_have_been_overtaken_is_accepted_and_older_is_refused() -> None:
    window = ReplayWindow()
    late, later, *rest = range(2 * REPLAY_COUNT_MAX + 3)
    assert all(window.accept(one) for one in rest[:-1])
    assert window.accept(late)
    assert window.accept(rest[-1])
    assert not window.accept(later)
    assert not any(window.accept(one) for one in rest)
