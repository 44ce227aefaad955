"""Every kind of invalid type file, with the expected problems in a `.txt` file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from skerry import limits
from skerry.errors import Problem, SchemaCheckError, SchemaSyntaxError, Severity
from skerry.json_values import visible
from skerry.schema.check import check, define
from skerry.schema.language.lexer import decode
from skerry.schema.language.parser import parse
from skerry.schema.language.problems import render

TYPES = Path(__file__).parents[2] / "golden" / "types"
BAD = sorted((TYPES / "bad").glob("*.dots"))
QUESTIONABLE = sorted((TYPES / "questionable").glob("*.dots"))
KIND = parse("enum Kind { 1: cargo, 2: tanker }", "Kind.dots")


def written(problems: Sequence[Problem]) -> str:
    """The problems in the form of the `.txt` files."""
    rows = []
    for problem in problems:
        rows.append(f"{problem.line}:{problem.column}: {problem.severity.value}: {problem.message}")
        rows.append(f"    text: {problem.text!r}")
        if problem.hint:
            rows.append(f"    hint: {problem.hint}")
    return "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_an_invalid_file_is_rejected_with_the_expected_problems(path: Path) -> None:
    with pytest.raises((SchemaSyntaxError, SchemaCheckError)) as caught:
        define(decode(path.read_bytes(), path.name), path.name)
    problems = caught.value.problems
    assert written(problems) == path.with_suffix(".txt").read_text()
    assert {problem.file for problem in problems} == {path.name}
    assert {problem.severity for problem in problems} == {Severity.ERROR}


@pytest.mark.parametrize("path", QUESTIONABLE, ids=lambda path: path.stem)
def test_a_questionable_file_is_accepted_with_the_expected_warnings(path: Path) -> None:
    tree = parse(decode(path.read_bytes(), path.name), path.name)
    checked = check([tree, KIND] if tree.imports else [tree])
    assert written(checked.warnings) == path.with_suffix(".txt").read_text()
    assert {problem.severity for problem in checked.warnings} == {Severity.WARNING}


def test_there_are_at_least_forty_kinds_of_invalid_files() -> None:
    assert len(BAD) >= 40


def test_every_expected_text_has_its_file() -> None:
    for folder in ("bad", "questionable"):
        stems = {path.stem for path in (TYPES / folder).glob("*.dots")}
        assert {path.stem for path in (TYPES / folder).glob("*.txt")} == stems


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_problem_points_at_its_text_in_the_source(path: Path) -> None:
    try:
        source = decode(path.read_bytes(), path.name)
        define(source, path.name)
    except (SchemaSyntaxError, SchemaCheckError) as error:
        if path.stem in {"not-utf-8", "half-a-file"}:
            return
        lines = source.split("\n")
        for problem in error.problems:
            line = lines[problem.line - 1]
            start = problem.column - 1
            is_there = line[start:].startswith(problem.text)
            is_behind = line[:start].endswith(problem.text)
            assert is_there or is_behind, problem
            assert render(problem, source).split("\n")[1].endswith(visible(line))


def test_the_highest_enum_tag_is_the_bound_of_the_messages() -> None:
    assert str(limits.ENUM_TAG_MAX) in (TYPES / "bad" / "enum-tag-too-high.txt").read_text()
