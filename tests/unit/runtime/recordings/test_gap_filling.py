"""Gaps of one recording that others fill."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from skerry.codec.envelope import SNAPSHOT, Update
from skerry.recording.gaps import Gap, gap_update
from skerry.runtime.recordings.copying import RECORDING_FILLED_COUNT_MAX, filled_gaps, range_of
from skerry.runtime.recordings.reader import Recording

Recorded = Callable[..., Recording]
UpdateOf = Callable[..., Update]
NODE = -9


def gap(first: int, stop: int, *, node: int = NODE, sender: int = 0) -> Update:
    missing = Gap(count=stop - first, first=first, stop=stop, first_ns=1, last_ns=2)
    return gap_update(missing, space="local", node=node, sender=sender)


@pytest.fixture
def made(
    tmp_path: Path, recorded: Recorded, update_of: UpdateOf
) -> Callable[[str, Iterable[int], Iterable[Update]], Recording]:
    """A recording of updates with these numbers, and of other rows."""

    def make(name: str, numbers: Iterable[int], others: Iterable[Update] = ()) -> Recording:
        rows = [*(update_of(number) for number in numbers), *others]
        return recorded(tmp_path / name, rows, rows_per_batch=4, batches_per_segment=2)

    return make


Made = Callable[..., Recording]


def test_gap_is_filled_by_another_recording_that_has_all_of_it(made: Made) -> None:
    one = made("a", [*range(1, 10), *range(20, 30)], [gap(10, 20)])
    assert filled_gaps([one]) == frozenset()
    assert filled_gaps([one, made("b", range(5, 25))]) == {(NODE, 10, 20)}
    assert filled_gaps([one, made("c", range(10, 19))]) == frozenset(), "one is missing"
    halves = [made("d", range(1, 15)), made("e", range(15, 30))]
    assert filled_gaps([one, *halves]) == {(NODE, 10, 20)}


def test_only_updates_of_the_same_node_fill_a_gap(made: Made, update_of: UpdateOf) -> None:
    one = made("a", [1], [gap(5, 7), gap(5, 7, node=4)])
    found = [update_of(5), update_of(6, operation=SNAPSHOT), update_of(6, node=4)]
    assert filled_gaps([one, made("b", [], found)]) == frozenset()
    assert filled_gaps([one, made("c", [5, 6])]) == {(NODE, 5, 7)}


def test_gap_without_positions_is_never_filled(update_of: UpdateOf) -> None:
    assert range_of(gap(5, 7)) == (NODE, 5, 7)
    assert range_of(gap(0, 0)) is None
    assert range_of(gap(5, 5)) is None
    assert range_of(gap(5, 7, sender=3)) is None, "of a sender it counts datagrams"
    assert range_of(update_of(1)) is None


def test_gap_above_the_limit_counts_as_unfilled(made: Made) -> None:
    one, other = made("a", [1], [gap(2, 12)]), made("b", range(2, 12))
    assert filled_gaps([one, other], count_max=9) == frozenset()
    assert filled_gaps([one, other], count_max=10) == {(NODE, 2, 12)}
    endless = made("c", [], [gap(1, RECORDING_FILLED_COUNT_MAX + 2)])
    assert filled_gaps([endless, other]) == frozenset()
