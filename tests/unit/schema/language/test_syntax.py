"""The syntax tree: comments and documentation, the form of types, parts of a file."""

from __future__ import annotations

import pytest

from skerry.schema.language.parser import parse
from skerry.schema.language.syntax import Comment, Notes, TypeSyntax, Word, join_documentation


def comment(text: str) -> Comment:
    return Comment(text=text, line=1, column=1, last_line=1)


@pytest.mark.parametrize(
    ("text", "documentation"),
    [
        ("/// a", "a"),
        ("///a", "a"),
        ("//< a", "a"),
        ("///< a", "a"),
        ("///  a ", " a"),
        ("///", ""),
        ("///\ta", "\ta"),
    ],
)
def test_documentation_is_the_text_after_the_mark(text: str, documentation: str) -> None:
    assert comment(text).is_documentation
    assert comment(text).documentation == documentation


@pytest.mark.parametrize("text", ["// a", "//", "//// a", "////////", "/* a */", "/** a */"])
def test_other_comments_document_nothing(text: str) -> None:
    assert not comment(text).is_documentation


def test_notes_document_with_what_is_before_and_after() -> None:
    notes = Notes(
        before=(comment("/// one"), comment("// plain"), comment("///"), comment("/// two")),
        inside=(comment("/// lost"),),
        after=(comment("//< three"),),
    )
    assert notes.documentation == "one\n\ntwo\nthree"


def test_documentation_has_no_empty_ends() -> None:
    assert join_documentation(["", "a  ", "", "b", "", ""]) == "a\n\nb"


def test_block_comments_without_an_end_are_torn() -> None:
    assert [comment(text).is_torn for text in ("/* a */", "/**/", "/* a", "/*/", "// a")] == [
        False,
        False,
        True,
        True,
        False,
    ]


def test_types_have_one_standard_form() -> None:
    time = TypeSyntax(name=Word(text="time_point", line=1, column=1))
    vector = TypeSyntax(name=Word(text="vector", line=1, column=1), argument=time)
    assert vector.text == "vector<timepoint>"


def test_a_file_separates_types_imports_and_packages() -> None:
    file = parse("import A\npackage p.q\nenum E { 1: e }\nstruct S { 1: bool b; }")
    assert [item.name.text for item in file.imports] == ["A"]
    assert [item.name.text for item in file.packages] == ["p.q"]
    assert [item.name.text for item in file.types] == ["E", "S"]
