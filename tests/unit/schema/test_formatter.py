"""The standard layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from skerry.errors import SchemaSyntaxError
from skerry.schema.formatter import format_text, format_tree
from skerry.schema.language.parser import parse

ROOT = Path(__file__).parents[3]
GOOD = ROOT / "tests/golden/types/good"
TIDY = [GOOD / "everything.dots", GOOD / "golden.dots", ROOT / "examples/fleet.dots"]


@pytest.mark.parametrize("path", TIDY, ids=lambda path: path.stem)
def test_tidy_file_stays_as_it_is(path: Path) -> None:
    assert format_text(path.read_text()) == path.read_text()


def test_untidy_file_becomes_tidy() -> None:
    expected = (GOOD / "untidy.formatted").read_text()
    assert format_text((GOOD / "untidy.dots").read_text()) == expected
    assert format_text(expected) == expected


def test_text_that_does_not_parse_is_rejected() -> None:
    with pytest.raises(SchemaSyntaxError):
        format_text("struct A {")


def test_empty_text_stays_empty() -> None:
    assert format_text("\n\n") == ""
    assert format_text("\n\n// only this") == "// only this\n"


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("enum E {1:a 02:b=-0,}", "enum E {\n    1: a,\n    2: b = 0\n}\n"),
        ("struct A[]{1:[]bool b;}", "struct A {\n    1: bool b;\n}\n"),
        ("struct A[x=TRUE,y=False]{1:bool b;}", "struct A [x, y=false] {\n    1: bool b;\n}\n"),
        ("struct A [x='\"'] {1:bool b;}", "struct A [x='\"'] {\n    1: bool b;\n}\n"),
        (
            "struct A{1:vector < time_point > b;}",
            "struct A {\n    1: vector<timepoint> b;\n}\n",
        ),
        ("import B\r\n\r\n\r\nimport C\rpackage d", "import B\n\nimport C\npackage d\n"),
        ("enum A{1:a}enum B{1:b}", "enum A {\n    1: a\n}\n\nenum B {\n    1: b\n}\n"),
        (
            "struct A {\n\n\n1: bool a;\n\n\n2: bool b;\n\n}",
            "struct A {\n    1: bool a;\n\n    2: bool b;\n}\n",
        ),
    ],
)
def test_layout(text: str, formatted: str) -> None:
    assert format_text(text) == formatted
    assert format_text(formatted) == formatted


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("1: bool a;///after", "1: bool a; //< after"),
        ("//<before\n1: bool a;", "/// before\n    1: bool a;"),
        ("1: /* in */ bool a; // after", "1: bool a; /* in */ // after"),
        ("1: // in\nbool a;", "1: bool a; // in"),
        ("1: // in\nbool a; // after", "// in\n    1: bool a; // after"),
        ("1: /// lost\nbool a;", "1: bool a; // lost"),
        ("1: /// lost\nbool a; //< kept", "// lost\n    1: bool a; //< kept"),
        ("1: bool a; /* two\n lines */", "1: bool a; /* two\n lines */"),
        ("/* one */ 1: bool a;", "/* one */\n    1: bool a;"),
        ("1: bool a;\n// last  ", "1: bool a;\n    // last"),
        ("1: bool a;\n\n/// last", "1: bool a;\n\n    /// last"),
        ("//////\n1: bool a;", "//////\n    1: bool a;"),
        (
            "1: bool a; // one\n22: bool b;\n3: bool c; // three\n\n4: bool d; // 4",
            "1: bool a; // one\n    22: bool b;\n    3: bool c; // three\n\n    4: bool d; // 4",
        ),
        (
            "1: bool a; // one\n22: bool bbb; // two",
            "1: bool a;    // one\n    22: bool bbb; // two",
        ),
    ],
)
def test_comments_of_fields(text: str, formatted: str) -> None:
    whole = f"struct A {{\n    {formatted}\n}}\n"
    assert format_text(f"struct A {{\n{text}\n}}") == whole
    assert format_text(whole) == whole


@pytest.mark.parametrize(
    ("text", "formatted"),
    [
        ("enum E // one\n{ 1: a }", "enum E { // one\n    1: a\n}\n"),
        ("enum E // one\n{ // two\n1: a }", "// one\nenum E { // two\n    1: a\n}\n"),
        ("enum E /// one\n{ 1: a }", "enum E { // one\n    1: a\n}\n"),
        ("enum E { /// one\n1: a }", "enum E {\n    /// one\n    1: a\n}\n"),
        ("enum E { 1: a } /// one", "enum E {\n    1: a\n} //< one\n"),
        ("enum E { 1: a // x\n, // y\n2: b }", "enum E {\n    // x\n    1: a, // y\n    2: b\n}\n"),
        ("/// one\n\nenum E { 1: a }\n// two", "/// one\n\nenum E {\n    1: a\n}\n// two\n"),
        ("import A // one\n// two\nimport B", "import A // one\n// two\nimport B\n"),
        ("package // one\na /* two */ . b", "// one\npackage a.b /* two */\n"),
    ],
)
def test_comments_elsewhere(text: str, formatted: str) -> None:
    assert format_text(text) == formatted
    assert format_text(formatted) == formatted


def test_tree_is_formatted_like_its_text() -> None:
    text = "enum E{1:a}"
    assert format_tree(parse(text)) == format_text(text)
