"""Generated modules: whatever the types, what the source declares is equal to them."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given, settings

from skerry.objects.generate import generate_module, generate_stub
from skerry.schema.model import NamedType
from tests.strategies import type_sets

pytestmark = pytest.mark.slow


@given(type_sets())
@settings(max_examples=60)
def test_declared_types_are_equal_to_those_the_module_was_made_of(
    types: tuple[NamedType, ...],
) -> None:
    scope: dict[str, Any] = {"__name__": "generated"}
    exec(generate_module(types), scope)
    classes = [scope[name] for name in scope["__all__"]]
    assert {cls.descriptor.name: cls.descriptor for cls in classes} == {
        type_.name: type_ for type_ in types
    }
    assert [cls.__name__ for cls in classes] == scope["__all__"]


@given(type_sets())
@settings(max_examples=60)
def test_stub_has_the_classes_of_the_module_and_the_same_members(
    types: tuple[NamedType, ...],
) -> None:
    module = members(generate_module(types))
    stub = members(generate_stub(types))
    assert {name: names - {"__match_args__", "__init__"} for name, names in stub.items()} == module


@given(type_sets())
@settings(max_examples=20)
def test_generated_text_is_the_same_each_time(types: tuple[NamedType, ...]) -> None:
    for generate in (generate_module, generate_stub):
        text = generate(types)
        assert text == generate(types)
        assert text.endswith("\n")
        assert not text.endswith("\n\n")


def members(source: str) -> dict[str, set[str]]:
    """What each class of the source has, by the names of both."""
    return {
        node.name: {name for statement in node.body for name in bound(statement)}
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef)
    }


def bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets = [statement.target] if isinstance(statement, ast.AnnAssign) else targets
    return [target.id for target in targets if isinstance(target, ast.Name)]
