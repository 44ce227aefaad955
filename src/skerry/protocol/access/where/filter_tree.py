"""The tree of an encoded condition, whose nodes are transmitted in pre-order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from skerry.errors import FilterError
from skerry.limits import FILTER_BYTES_MAX, FILTER_DEPTH_MAX

FILTER_NODE_COUNT_MAX: Final = 256
"""Comparisons, and operators between them, in one condition. They are evaluated for each update of
the type, which takes tens of microseconds for this many. A search for one of many values can use a
list."""
FILTER_PATTERN_CHAR_COUNT_MAX: Final = 1024
"""Characters of all patterns in a condition. Each pattern is kept and matched with each update."""

BranchKind: TypeAlias = Literal["leaf", "and", "or", "not"]

KINDS: Final[dict[int, BranchKind]] = {1: "leaf", 2: "and", 3: "or", 4: "not"}
"""Kinds of nodes by the tags of DotsPredicateKind."""

LIKE: Final = 20
"""The tag of `like` in DotsCompareOp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A leaf with its DotsPredicateLeaf, or an operator with the branches that it joins."""

    kind: BranchKind
    leaf: Any = None
    parts: tuple[Branch, ...] = ()


def predicate_tree(predicate: Any) -> Branch:
    """Return the tree of a DotsPredicate; FilterError if it is malformed or too large."""
    nodes = predicate.nodes or []
    if not nodes:
        raise FilterError("a condition without nodes")
    if len(nodes) > FILTER_NODE_COUNT_MAX:
        raise FilterError(
            f"a condition of {len(nodes)} parts, the limit is {FILTER_NODE_COUNT_MAX};"
            " use `in` to test for many values"
        )
    size = len(predicate.encode())
    if size > FILTER_BYTES_MAX:
        raise FilterError(f"a condition of {size} bytes, the limit is {FILTER_BYTES_MAX}")
    pattern_count = sum(_pattern_count(node) for node in nodes)
    if pattern_count > FILTER_PATTERN_CHAR_COUNT_MAX:
        raise FilterError(
            f"patterns of {pattern_count} characters,"
            f" the limit is {FILTER_PATTERN_CHAR_COUNT_MAX} for all of a condition"
        )
    root, used_count = _branch(nodes, 0, 1)
    if used_count != len(nodes):
        raise FilterError(f"{len(nodes) - used_count} nodes are left over")
    return root


def _pattern_count(node: Any) -> int:
    leaf = node.leaf
    if leaf is None or leaf.op is None or leaf.op.tag != LIKE or leaf.value is None:
        return 0
    return len(leaf.value.stringVal or "")


def _branch(nodes: list[Any], index: int, depth: int) -> tuple[Branch, int]:
    """Return the branch that begins at a node, and the index after its last node."""
    if index >= len(nodes):
        raise FilterError("the condition ends before all of its parts")
    if depth > FILTER_DEPTH_MAX:
        raise FilterError(f"a condition nested deeper than {FILTER_DEPTH_MAX} levels")
    node = nodes[index]
    if node.kind is None:
        raise FilterError("a node without a kind")
    kind = KINDS[node.kind.tag]
    if (node.leaf is not None) != (kind == "leaf"):
        raise FilterError(f"a node that is `{kind}` and has {'no' if kind == 'leaf' else 'a'} leaf")
    arity = node.arity or 0
    if not _is_arity(kind, arity):
        raise FilterError(f"a node that is `{kind}` and joins {arity} others")
    parts: list[Branch] = []
    index += 1
    for _ in range(arity):
        part, index = _branch(nodes, index, depth + 1)
        parts.append(part)
    return Branch(kind=kind, leaf=node.leaf, parts=tuple(parts)), index


def _is_arity(kind: BranchKind, arity: int) -> bool:
    if kind == "leaf":
        return arity == 0
    return arity == 1 if kind == "not" else arity >= 1
