"""Encoded conditions: nodes in pre-order that form a tree, and those that do not."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.errors import FilterError
from skerry.limits import FILTER_BYTES_MAX, FILTER_DEPTH_MAX
from skerry.objects.internal import internal_class
from skerry.protocol.access.where.filter_tree import (
    FILTER_NODE_COUNT_MAX,
    FILTER_PATTERN_CHAR_COUNT_MAX,
    Branch,
    predicate_tree,
)

Kind = internal_class("DotsPredicateKind")
Op = internal_class("DotsCompareOp")
Node = internal_class("DotsPredicateNode")
Leaf = internal_class("DotsPredicateLeaf")
Value = internal_class("DotsPredicateValue")
Predicate = internal_class("DotsPredicate")


def leaf(tag: int = 1, *, op: Any = Op.isNull, **value: Any) -> Any:
    asked = Value(**value) if value else None
    return Node(kind=Kind.leaf, leaf=Leaf(propertyTag=tag, op=op, value=asked))


def word(kind: Any, arity: int | None) -> Any:
    return Node(kind=kind, arity=arity)


def tree(*nodes: Any) -> Branch:
    return predicate_tree(Predicate.decode(Predicate(nodes=list(nodes)).encode()))


def shown(branch: Branch) -> str:
    if branch.kind == "leaf":
        return str(branch.leaf.propertyTag)
    return f"{branch.kind}({' '.join(shown(part) for part in branch.parts)})"


def test_nodes_in_pre_order_become_a_tree() -> None:
    assert shown(tree(leaf(7))) == "7"
    nodes = [word(Kind.andOp, 2), leaf(1), word(Kind.orOp, 3), leaf(2), word(Kind.notOp, 1)]
    assert shown(tree(*nodes, leaf(3), leaf(4))) == "and(1 or(2 not(3) 4))"


def test_a_leaf_may_have_arity_zero_and_an_operator_arity_one() -> None:
    node = leaf(1)
    node.arity = 0
    assert shown(tree(word(Kind.andOp, 1), node)) == "and(1)"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "without nodes"),
        ([Node()], "without a kind"),
        ([Node(kind=Kind.leaf)], "has no leaf"),
        ([Node(kind=Kind.andOp, arity=1, leaf=Leaf()), leaf()], "has a leaf"),
        ([Node(kind=Kind.leaf, leaf=Leaf(), arity=1), leaf()], "joins 1"),
        ([word(Kind.andOp, None)], "joins 0"),
        ([word(Kind.orOp, 0)], "joins 0"),
        ([word(Kind.notOp, None), leaf()], "joins 0"),
        ([word(Kind.notOp, 2), leaf(), leaf()], "joins 2"),
        ([word(Kind.andOp, 2), leaf()], "ends before"),
        ([word(Kind.andOp, 2**32 - 1), leaf()], "ends before"),
        ([leaf(), leaf()], "1 nodes are left over"),
    ],
)
def test_nodes_that_do_not_form_a_tree_are_refused(nodes: list[Any], message: str) -> None:
    with pytest.raises(FilterError, match=message):
        tree(*nodes)


def test_a_condition_without_the_list_of_nodes_is_refused() -> None:
    with pytest.raises(FilterError, match="without nodes"):
        predicate_tree(Predicate())


def test_nesting_is_limited() -> None:
    deepest = [word(Kind.notOp, 1)] * (FILTER_DEPTH_MAX - 1)
    tree(*deepest, leaf())
    with pytest.raises(FilterError, match=f"deeper than {FILTER_DEPTH_MAX}"):
        tree(*deepest, word(Kind.notOp, 1), leaf())


def test_the_number_of_nodes_is_limited() -> None:
    count = FILTER_NODE_COUNT_MAX - 1
    tree(word(Kind.andOp, count), *[leaf()] * count)
    with pytest.raises(FilterError, match=f"the limit is {FILTER_NODE_COUNT_MAX}"):
        tree(word(Kind.andOp, count + 1), *[leaf()] * (count + 1))


def test_the_number_of_bytes_is_limited() -> None:
    def text_of(size: int) -> Any:
        return leaf(op=Op.eq, stringVal="x" * size)

    around = len(Predicate(nodes=[text_of(100_000)]).encode()) - 100_000
    tree(text_of(FILTER_BYTES_MAX - around))
    with pytest.raises(FilterError, match=f"the limit is {FILTER_BYTES_MAX}"):
        tree(text_of(FILTER_BYTES_MAX - around + 1))


def test_the_length_of_patterns_is_limited() -> None:
    def pattern_of(size: int) -> Any:
        return leaf(op=Op.like, stringVal="x" * size)

    half = FILTER_PATTERN_CHAR_COUNT_MAX // 2
    tree(word(Kind.orOp, 2), pattern_of(half), pattern_of(half))
    with pytest.raises(FilterError, match=f"the limit is {FILTER_PATTERN_CHAR_COUNT_MAX}"):
        tree(word(Kind.orOp, 2), pattern_of(half), pattern_of(half + 1))
