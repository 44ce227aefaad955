"""Bounds: each is a positive number with its reason, and they fit each other."""

from __future__ import annotations

import ast
import inspect

from skerry import limits

VALUES = {name: value for name, value in vars(limits).items() if name.isupper()}


def test_every_bound_is_a_positive_number() -> None:
    assert VALUES
    assert {
        name for name, value in VALUES.items() if not (type(value) is int and value > 0)
    } == set()


def test_every_bound_has_its_reason() -> None:
    body = ast.parse(inspect.getsource(limits)).body
    unexplained = [
        node.target.id
        for node, below in zip(body, [*body[1:], None], strict=True)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if not is_reason(below)
    ]
    # The least tag is explained together with the greatest.
    assert unexplained == ["TAG_MIN"]


def is_reason(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def test_tags_fit_the_mask_of_a_property_set() -> None:
    assert limits.TAG_MIN == 1
    assert limits.TAG_MAX == 31
    assert limits.STRUCT_ENTRY_COUNT_MAX == limits.TAG_MAX - limits.TAG_MIN + 1


def test_a_frame_has_room_for_the_largest_payload_and_header() -> None:
    assert limits.FRAME_BYTES_MAX >= limits.PAYLOAD_BYTES_MAX + limits.HEADER_BYTES_MAX


def test_skipped_values_may_nest_deeper_than_any_type() -> None:
    assert limits.SKIP_DEPTH_MAX > limits.TYPE_DEPTH_MAX
