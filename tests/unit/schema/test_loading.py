"""Files and their imports."""

from __future__ import annotations

import pytest

from skerry import limits
from skerry.errors import LimitExceeded, SchemaCheckError, SchemaSyntaxError
from skerry.schema.check import define
from skerry.schema.loading import SOURCE_COUNT_MAX, load, resolve

FILES: dict[str, str | bytes] = {
    "fleet/Vessel.dots": "import Kind\nimport Crew\nstruct Vessel { 1: Kind kind; 2: Crew crew; }",
    "fleet/Kind.dots": b"enum Kind { 1: cargo }",
    "fleet/Crew.dots": "import Vessel\nstruct Crew { 1: instance_ref<Vessel> vessel; }",
    "other/Kind.dots": "enum Kind { 1: tanker }",
    "other/two.dots": "enum Kind { 1: tug } struct Crew { 1: bool there; }",
    "bad.dots": "struct A {",
    "worse.dots": b"\xff",
    "uses-bad.dots": "import bad\nstruct B { 1: bool b }",
    "lost.dots": "import Nowhere",
    "wrong.dots": "import two\n",
}


def read(path: str) -> str | bytes | None:
    return FILES.get(path)


def test_imports_find_files_in_the_same_folder() -> None:
    loaded = resolve(["fleet/Vessel.dots"], read)
    assert [file.file for file in loaded] == [
        "fleet/Vessel.dots",
        "fleet/Kind.dots",
        "fleet/Crew.dots",
    ]
    assert [t.name for t in load(["fleet/Vessel.dots"], read).types] == ["Vessel", "Kind", "Crew"]


def test_types_of_given_files_take_precedence_over_files_in_the_folder() -> None:
    loaded = resolve(["fleet/Vessel.dots", "other/two.dots"], read)
    assert [file.file for file in loaded] == ["fleet/Vessel.dots", "other/two.dots"]


def test_imports_find_known_types() -> None:
    known = {type_.name: type_ for type_ in define("enum Kind { 1: any }").types}
    loaded = resolve(["fleet/Vessel.dots"], read, known)
    assert [file.file for file in loaded] == ["fleet/Vessel.dots", "fleet/Crew.dots"]
    assert load(["fleet/Vessel.dots"], read, known).types[0].name == "Vessel"


def test_a_file_that_is_given_twice_is_read_once() -> None:
    assert len(resolve(["fleet/Kind.dots", "./fleet//Kind.dots"], read)) == 1


def test_faults_of_all_files_are_reported_together() -> None:
    with pytest.raises(SchemaSyntaxError) as caught:
        resolve(["uses-bad.dots", "bad.dots", "worse.dots", "gone.dots"], read)
    assert [(p.file, p.message.split(":")[0]) for p in caught.value.problems] == [
        ("uses-bad.dots", "`;` is missing after field `b`"),
        ("bad.dots", "`}` is missing"),
        ("worse.dots", "not UTF-8"),
        ("gone.dots", "there is no such file"),
    ]


def test_faults_are_limited() -> None:
    with pytest.raises(SchemaSyntaxError) as caught:
        resolve([f"{n}.dots" for n in range(200)], read)
    assert len(caught.value.problems) == limits.PROBLEM_COUNT_MAX


def test_check_reports_an_import_that_finds_nothing() -> None:
    assert len(resolve(["lost.dots"], read)) == 1
    with pytest.raises(SchemaCheckError, match="there is no type `Nowhere` to import"):
        load(["lost.dots"], read)


def test_an_imported_file_must_define_the_type() -> None:
    files = {"a.dots": "import B", "B.dots": "enum C { 1: c }"}
    assert len(resolve(["a.dots"], files.get)) == 2
    with pytest.raises(SchemaCheckError, match="there is no type `B` to import"):
        load(["a.dots"], files.get)


def test_the_number_of_files_is_limited() -> None:
    def chain(path: str) -> str:
        number = int(path.removesuffix(".dots").removeprefix("T"))
        return f"import T{number + 1}\nenum T{number} {{ 1: a }}"

    def ending_chain(path: str) -> str | None:
        return chain(path) if path != f"T{SOURCE_COUNT_MAX}.dots" else None

    assert len(resolve(["T0.dots"], ending_chain)) == SOURCE_COUNT_MAX
    with pytest.raises(LimitExceeded, match="number of type files is 1001, the limit is 1000"):
        resolve(["T0.dots"], chain)


def test_rules_are_checked_in_files_that_can_be_parsed() -> None:
    files = {
        "a.dots": "import B\nstruct A { 1: B b; 2: strng c; }",
        "B.dots": "struct B { 1 bool b; }\nimport C\n",
        "C.dots": "enum C { 0: c }",
    }
    with pytest.raises(SchemaSyntaxError) as caught:
        resolve(["a.dots"], files.get)
    assert [(p.file, p.message.split(",")[0]) for p in caught.value.problems] == [
        ("a.dots", "type `strng` is unknown"),
        ("B.dots", "expected `:` after tag 1"),
        ("C.dots", "tag 0 of element `c` is not in 1..2147483647"),
    ]
