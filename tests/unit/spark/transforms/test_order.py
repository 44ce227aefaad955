from __future__ import annotations

from typing import Any

import pytest

from skerry.limits import PIPELINE_CLOCK_COUNT_MAX
from skerry.spark.lake.plans import Clock
from skerry.spark.transforms.dedupe import BLOCK_COUNT, with_identity
from skerry.spark.transforms.order import (
    ClockBlock,
    OrderSurvey,
    advanced,
    blocks,
    priors,
    with_order,
    with_priors,
)

COLUMNS = (
    "node bigint, position bigint, time_ns bigint, operation tinyint, source string, sender bigint,"
    " sequence bigint, key binary, present bigint, subject string, type string, sent_ns bigint"
)


def block(node: int, number: int, low_ns: int, high_ns: int) -> ClockBlock:
    first = number * BLOCK_COUNT + 1
    return ClockBlock(
        node=node,
        number=number,
        position_min=first,
        position_max=first + 9,
        order_min_ns=low_ns,
        order_max_ns=high_ns,
    )


def test_block_is_behind_where_a_clock_went_back_at_its_edge() -> None:
    found = [block(1, 0, 10, 50), block(1, 1, 40, 60), block(1, 2, 60, 70), block(2, 1, 5, 6)]
    assert priors(found, {}) == {(1, 1): 50}
    assert priors(found, {2: Clock(position=3, order_ns=9)}) == {(1, 1): 50, (2, 1): 9}


def test_clocks_only_advance() -> None:
    clocks = {1: Clock(position=BLOCK_COUNT * 9, order_ns=55)}
    after = advanced(clocks, [block(1, 0, 10, 50), block(2, 0, 1, 2)])
    assert after == {1: clocks[1], 2: Clock(position=10, order_ns=2)}


def test_clocks_that_were_set_long_ago_are_forgotten() -> None:
    found = [block(node, 0, node, node) for node in range(1, 6)]
    assert sorted(advanced({}, found, count_max=3)) == [3, 4, 5]
    many = [block(node, 0, node, node) for node in range(1, PIPELINE_CLOCK_COUNT_MAX + 2)]
    assert 1 not in advanced({}, many)
    assert len(advanced({}, many)) == PIPELINE_CLOCK_COUNT_MAX


def rows(*facts: tuple[int, int, int, int, str]) -> list[tuple[Any, ...]]:
    return [(*fact, 3, fact[1], b"", 0, "/x", "T", None) for fact in facts]


@pytest.mark.slow
def test_times_of_a_node_never_go_back_along_its_positions(spark: Any) -> None:
    edge = BLOCK_COUNT
    made = rows(
        (1, 1, 100, 2, "access"),
        (1, 2, 40, 2, "access"),  # the clock went back
        (1, 3, 900, 5, "access"),  # what was found there does not set the clock
        (1, 4, 120, 2, "access"),
        (1, edge, 110, 2, "access"),
        (2, 1, 7, 2, "access"),
        (1, 5, 30, 2, "distributor"),  # many receive it: no place in the order of a node
        (0, 9, 20, 2, "access"),
    )
    frame = with_order(with_identity(spark.createDataFrame(made, COLUMNS)))
    survey = blocks(frame)
    assert isinstance(survey, OrderSurvey)
    before = priors(survey.blocks, {})
    assert before == {(1, 1): 120}
    right = with_priors(spark, frame, before).select("node", "position", "order_ns").collect()
    assert {(row.node, row.position): row.order_ns for row in right} == {
        (1, 1): 100,
        (1, 2): 100,
        (1, 3): 900,
        (1, 4): 120,
        (1, edge): 120,
        (2, 1): 7,
        (1, 5): 30,
        (0, 9): 20,
    }
