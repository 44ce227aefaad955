"""Delays between attempts: growth, the bound, and the random part."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.protocol.backoff import Backoff


def test_without_chance_the_delay_doubles_up_to_its_bound() -> None:
    backoff = Backoff(first_ns=10, delay_ns_max=75, spread_percent=0)
    rng = Random(0)
    assert [backoff.delay_ns(n, rng) for n in range(1, 7)] == [10, 20, 40, 75, 75, 75]


def test_a_million_attempts_do_not_make_a_huge_number() -> None:
    backoff = Backoff(first_ns=10, delay_ns_max=1000, spread_percent=0)
    assert backoff.delay_ns(10**6, Random(0)) == 1000


def test_the_same_chance_gives_the_same_delays_and_another_gives_others() -> None:
    backoff = Backoff(first_ns=10**6, delay_ns_max=10**9)
    first = [backoff.delay_ns(n, Random(1)) for n in range(1, 9)]
    assert first == [backoff.delay_ns(n, Random(1)) for n in range(1, 9)]
    assert first != [backoff.delay_ns(n, Random(2)) for n in range(1, 9)]


@given(
    first_ns=st.integers(1, 10**9),
    more_ns=st.integers(0, 10**10),
    spread_percent=st.integers(0, 100),
    attempt_count=st.integers(1, 100),
    seed=st.integers(0, 100),
)
def test_a_delay_is_within_its_spread(
    first_ns: int, more_ns: int, spread_percent: int, attempt_count: int, seed: int
) -> None:
    backoff = Backoff(
        first_ns=first_ns, delay_ns_max=first_ns + more_ns, spread_percent=spread_percent
    )
    whole_ns = min(first_ns * 2 ** (attempt_count - 1), first_ns + more_ns)
    delay_ns = backoff.delay_ns(attempt_count, Random(seed))
    assert 1 <= delay_ns <= whole_ns
    assert delay_ns >= whole_ns * (100 - spread_percent) // 100


@pytest.mark.parametrize(
    ("first_ns", "delay_ns_max", "spread_percent"), [(0, 1, 0), (2, 1, 0), (1, 1, 101), (1, 1, -1)]
)
def test_delays_that_make_no_sense_are_a_bug(
    first_ns: int, delay_ns_max: int, spread_percent: int
) -> None:
    with pytest.raises(AssertionError):
        Backoff(first_ns=first_ns, delay_ns_max=delay_ns_max, spread_percent=spread_percent)
