"""Layout of source: one line where it fits, else one item to a line."""

from __future__ import annotations

import inspect

import pytest

from skerry.objects.source.layout import Brackets, docstring, lay_out, text_literal


def test_short_source_is_on_one_line() -> None:
    call = Brackets("f(", ["1", Brackets("a=[", ["2", "3"], "]")], ")")
    assert lay_out(call, "    ", lead="x = ") == ["    x = f(1, a=[2, 3])"]


def test_long_source_has_one_item_per_line_and_a_trailing_comma() -> None:
    long = "x" * 50
    call = Brackets("f(", [long, Brackets("a=[", ["2", "3"], "]"), long], ")")
    assert lay_out(call) == ["f(", f"    {long},", "    a=[2, 3],", f"    {long},", ")"]


def test_inner_brackets_are_broken_only_if_needed() -> None:
    inner = Brackets("a=[", ["x" * 40, "y" * 40], "]")
    assert lay_out(Brackets("f(", [inner], ")")) == [
        "f(",
        "    a=[",
        f"        {'x' * 40},",
        f"        {'y' * 40},",
        "    ],",
        ")",
    ]


@pytest.mark.parametrize(("width", "line_count"), [(88, 1), (89, 3)])
def test_a_line_has_at_most_88_columns(width: int, line_count: int) -> None:
    lines = lay_out(Brackets("f(", ["x" * (width - 3)], ")"))
    assert len(lines) == line_count


def test_characters_that_may_be_wide_count_twice() -> None:
    assert len(lay_out(Brackets("f(", ['"' + "漢" * 42 + '"'], ")"))) == 3


def test_tuple_of_one_keeps_its_comma() -> None:
    assert lay_out(Brackets("x = (", ['"a"'], ")")) == ['x = ("a",)']
    assert lay_out(Brackets("f(", ['"a"'], ")")) == ['f("a")']


def test_empty_brackets_stay_on_their_line() -> None:
    assert lay_out(Brackets("x" * 90 + "(", [], ")")) == ["x" * 90 + "()"]


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("plain", '"plain"'),
        ("it's", '"it\'s"'),
        ('say "a"', "'say \"a\"'"),
        ("'\"", '"\'\\""'),
        ("back\\slash", '"back\\\\slash"'),
        ("tab\tnew\n\x00", '"tab\\tnew\\n\\x00"'),
        ("ä漢", '"ä漢"'),
        ("\ud800\u2028", '"\\ud800\\u2028"'),
    ],
)
def test_literals_need_few_escapes_and_mean_the_text(text: str, literal: str) -> None:
    assert text_literal(text) == literal
    assert eval(literal) == text


@pytest.mark.parametrize(
    "text", ["One line.", "Two\nlines.", "First.\n\n  indented\n\nlast", "ä", "a 'b' \"c\" d"]
)
def test_docstring_reads_as_the_text(text: str) -> None:
    lines = docstring(text, "    ")
    assert lines is not None
    scope: dict[str, type] = {}
    exec("\n".join(["class A:", *lines]), scope)
    assert inspect.cleandoc(scope["A"].__doc__ or "") == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "back\\slash",
        'three """ quotes',
        'ends with "',
        '"begins" so',
        "tab\tinside",
        "  begins with blanks",
        "only\n  the first\n  at the margin",
        "\nbegins empty",
        "line\u2028separator",
    ],
)
def test_text_that_a_docstring_would_change_is_no_docstring(text: str) -> None:
    assert docstring(text, "    ") is None
