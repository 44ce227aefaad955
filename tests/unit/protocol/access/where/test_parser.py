"""The syntax of a `where`: precedence, optional parts, and errors."""

from __future__ import annotations

import pytest

from skerry.errors import FilterError
from skerry.limits import FILTER_DEPTH_MAX
from skerry.protocol.access.where.parser import Condition, Syntax, parse


def shown(tree: Syntax) -> str:
    """A tree with a bracket around everything, so that tests can read it."""
    if isinstance(tree, Condition):
        asked = f"not {tree.operator}" if tree.is_negated else tree.operator
        return " ".join([tree.field.text, asked, *(value.text for value in tree.values)])
    if tree.kind == "not":
        return f"(not {shown(tree.parts[0])})"
    return f"({f' {tree.kind} '.join(shown(part) for part in tree.parts)})"


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("a = 1", "a = 1"),
        ("a == 1", "a = 1"),
        ("a <> 1", "a != 1"),
        ("a = 1 and b = 2 or c = 3", "((a = 1 and b = 2) or c = 3)"),
        ("a = 1 or b = 2 and c = 3", "(a = 1 or (b = 2 and c = 3))"),
        ("a = 1 and b = 2 and c = 3", "(a = 1 and b = 2 and c = 3)"),
        ("not a = 1 and b = 2", "((not a = 1) and b = 2)"),
        ("not not a = 1", "(not (not a = 1))"),
        ("not (a = 1 or b = 2)", "(not (a = 1 or b = 2))"),
        ("((a = 1))", "a = 1"),
        ("a between 1 and 2 and b = 3", "(a between 1 2 and b = 3)"),
        ("a not between 1 and 2", "a not between 1 2"),
        ("a in (1)", "a in 1"),
        ("a NOT IN (1, x,'y')", "a not in 1 x 'y'"),
        ("a Like 'M%'", "a like 'M%'"),
        ("a not like 'M%'", "a not like 'M%'"),
        ("a is null", "a null"),
        ("a IS NOT NULL", "a not null"),
        ('"and" = 1', '"and" = 1'),
        ("a = and", "a = and"),
        ("a\n=\t1", "a = 1"),
    ],
)
def test_text_becomes_a_tree(source: str, tree: str) -> None:
    assert shown(parse(source)) == tree


@pytest.mark.parametrize(
    ("source", "column", "message"),
    [
        ("", 1, "there is no condition"),
        ("  ", 3, "there is no condition"),
        ("a", 2, "expected a comparison after `a`, found the end"),
        ("a 5", 3, "expected a comparison after `a`, found `5`"),
        ("a =", 4, "expected a value, found the end"),
        ("a = )", 5, "expected a value, found `)`"),
        ("a = 1 b = 2", 7, "expected `and`, `or` or the end, found `b`"),
        ("a = 1 and", 10, "expected a field, found the end"),
        ("(a = 1", 7, "expected `)`, found the end"),
        ("a = 1)", 6, "expected `and`, `or` or the end, found `)`"),
        ("a in 1", 6, "expected `(`, found `1`"),
        ("a in ()", 7, "expected a value, found `)`"),
        ("a in (1 2)", 9, "expected `)`, found `2`"),
        ("a in (1,)", 9, "expected a value, found `)`"),
        ("a between 1 or 2", 13, "expected `and`, found `or`"),
        ("a is 5", 6, "expected `null`, found `5`"),
        ("a not = 5", 7, "expected `in`, `between` or `like` after `not`, found `=`"),
        ("50 < lat", 1, "a condition begins with a field, not `50`"),
        ("'a' = b", 1, "a condition begins with a field, not `'a'`"),
        ("in = 3", 1, "expected a field, found `in`"),
        ("pos.lat > 3", 4, "only fields of the object itself can be tested"),
    ],
)
def test_the_error_about_a_condition_has_its_position(
    source: str, column: int, message: str
) -> None:
    with pytest.raises(FilterError) as caught:
        parse(source)
    problem = caught.value.problems[0]
    assert problem.message.startswith(message)
    assert problem.column == column


def test_hints_show_the_correct_syntax() -> None:
    for source, hint in {
        "in = 3": 'a field of that name is written "in"',
        "50 < lat": "write `lat > 50` instead of `50 < lat`",
        "active": "for a bool, write `active = true`",
    }.items():
        with pytest.raises(FilterError) as caught:
            parse(source)
        assert caught.value.hint == hint


@pytest.mark.parametrize(("begin", "end"), [("(", ")"), ("not ", "")])
def test_nesting_is_limited(begin: str, end: str) -> None:
    count = FILTER_DEPTH_MAX - 1
    parse(begin * count + "a = 1" + end * count)
    with pytest.raises(FilterError, match=f"deeper than {FILTER_DEPTH_MAX} levels"):
        parse(begin * (count + 1) + "a = 1" + end * (count + 1))
