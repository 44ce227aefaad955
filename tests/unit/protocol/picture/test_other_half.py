"""Two halves of a system meet again."""

from __future__ import annotations

from skerry.protocol.picture.other_half import OtherHalf

WAIT_NS = 1_500_000_000


def test_without_refusals_nothing_is_decided() -> None:
    half = OtherHalf()
    assert half.due_ns is None
    assert half.decide(1, 1, 10**12) is None


def test_the_smaller_half_leaves_and_the_larger_stays() -> None:
    for size, answer in ((2, (6, 9)), (4, None)):
        half = OtherHalf()
        half.refused(9, 3, 20, 6, 0, was_alive=False)
        assert half.decide(size, 30, WAIT_NS - 1) is None
        assert half.decide(size, 30, WAIT_NS) == answer
        assert half.decide(size, 30, 2 * WAIT_NS) is None


def test_of_equal_halves_the_one_with_the_lower_elected_node_leaves() -> None:
    for elected, answer in ((19, (6, 9)), (21, None)):
        half = OtherHalf()
        half.refused(9, 3, 20, 6, 0, was_alive=False)
        assert half.decide(3, elected, WAIT_NS) == answer


def test_the_largest_of_all_refusals_counts() -> None:
    half = OtherHalf()
    half.refused(9, 1, 20, 6, 0, was_alive=False)
    half.refused(8, 5, 20, 7, WAIT_NS - 1, was_alive=False)
    assert half.decide(3, 30, WAIT_NS) == (7, 8)


def test_a_refusal_from_inside_makes_the_own_half_uncertain_until_the_decision() -> None:
    half = OtherHalf()
    seen = []
    for node, was_alive in ((9, False), (8, True), (7, False)):
        half.refused(node, 3, 20, 6, 0, was_alive=was_alive)
        seen.append(half.is_inside)
    assert half.decide(4, 10, WAIT_NS) is None
    assert [*seen, half.is_inside] == [False, True, True, False]
