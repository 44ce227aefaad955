"""Conflicts between new definitions and those in use."""

from __future__ import annotations

from collections.abc import Collection

from skerry.engine.types.definition_conflicts import DefinitionConflicts, ObsoleteDefinition
from skerry.engine.types.served_types import Definition, ServedType, ServedTypes, UnionConflict
from skerry.limits import ENUM_ELEMENT_COUNT_MAX
from skerry.schema.check import define
from skerry.schema.fingerprint import fingerprint
from skerry.schema.model import NamedType

OLD = "struct Boat { 1: [key] uint32 id; 2: string name; }"
BROKEN = "struct Boat { 1: [key] uint32 id; 2: int32 name; }"


class Checks:
    def __init__(self) -> None:
        self.with_objects: set[str] = set()
        self.published: set[tuple[int, str]] = set()
        self.misfit = ""
        self.types = ServedTypes(lambda _: None)
        self.conflicts = DefinitionConflicts(
            self.types,
            has_objects=self.with_objects.__contains__,
            misfit=lambda _name, _union: self.misfit,
            has_published=lambda client, name: (client, name) in self.published,
        )

    def accept(self, text: str, client: int = 2) -> Definition:
        for type_ in define(text).types:
            known = self.types.setdefault(type_.name, ServedType(type_.name, ""))
            definition = known.definitions.setdefault(fingerprint(type_), Definition(type_))
            definition.clients[client] = f"c{client}"
            self.types.accept(known, type_, is_owned=True)
        return definition

    def find(
        self, text: str, owned: Collection[str] | None = None, *, is_publishing: bool = False
    ) -> UnionConflict | list[ObsoleteDefinition]:
        parts: list[NamedType] = list(define(text).types)
        names = [part.name for part in parts] if owned is None else owned
        return self.conflicts.find(parts, names, 3, is_publishing)


def test_compatible_and_unknown_definitions_have_no_conflict() -> None:
    checks = Checks()
    assert checks.find(OLD) == []
    checks.accept(OLD)
    assert checks.find(OLD) == []
    assert checks.find("struct Boat { 1: [key] uint32 id; 3: bool is_old; }") == []


def test_an_incompatible_definition_is_undecided_until_a_client_publishes() -> None:
    checks = Checks()
    known = checks.accept(OLD)
    found = checks.find(BROKEN)
    assert isinstance(found, UnionConflict)
    assert (found.other, found.is_decided) == (known, False)
    found = checks.find(BROKEN, is_publishing=True)
    assert isinstance(found, list)
    assert [(one.definition, one.type.name) for one in found] == [(known, "Boat")]
    checks.published.add((2, "Boat"))
    found = checks.find(BROKEN, is_publishing=True)
    assert isinstance(found, UnionConflict)
    assert found.is_decided


def test_objects_keep_their_definition_in_use() -> None:
    checks = Checks()
    known = checks.accept(OLD)
    assert (checks.conflicts.is_used(known), checks.conflicts.with_objects("Boat")) == (False, "")
    checks.with_objects.add("Boat")
    assert (checks.conflicts.is_used(known), checks.conflicts.with_objects("Boat")) == (
        True,
        "Boat",
    )
    found = checks.find(BROKEN, is_publishing=True)
    assert isinstance(found, UnionConflict)
    assert found.is_decided


def test_objects_that_do_not_fit_a_union_are_a_conflict() -> None:
    checks = Checks()
    checks.accept(OLD)
    checks.misfit = "Boat: undescribed values"
    found = checks.find("struct Boat { 1: [key] uint32 id; 3: bool is_old; }")
    assert found == UnionConflict("Boat: undescribed values", None, is_by_objects=True)


def test_a_type_with_objects_is_changed_only_with_the_right_to_publish_it() -> None:
    checks = Checks()
    known = checks.accept(OLD)
    checks.with_objects.add("Boat")
    found = checks.find("struct Boat { 1: [key] uint32 id; 3: bool is_old; }", owned=())
    assert isinstance(found, UnionConflict)
    assert (found.other, found.is_by_right) == (known, True)
    assert "may not publish Boat" in found.difference


def test_a_union_with_too_many_elements_is_a_conflict() -> None:
    checks = Checks()
    half = ENUM_ELEMENT_COUNT_MAX // 2 + 1
    first = ", ".join(f"{tag}: a{tag}" for tag in range(1, half + 1))
    second = ", ".join(f"{tag}: a{tag}" for tag in range(half + 1, 2 * half + 1))
    checks.accept(f"enum Kind {{ {first} }}")
    found = checks.find(f"enum Kind {{ {second} }}")
    assert isinstance(found, UnionConflict)
    assert f"the limit is {ENUM_ELEMENT_COUNT_MAX}" in found.difference


def test_a_union_that_contains_itself_is_a_conflict() -> None:
    checks = Checks()
    checks.accept("struct Part { 1: bool a; } struct Whole { 1: Part part; }")
    found = checks.find("struct Whole { 1: bool a; } struct Part { 2: Whole whole; }")
    assert isinstance(found, UnionConflict)
