"""Annotations of fields and their types."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Optional, Union
from uuid import UUID

import pytest

from skerry.codec.values import AnyObject, PropertySet, Ref
from skerry.objects import annotations as names
from skerry.objects.annotations import field_type
from skerry.objects.typeset import TypeSet
from skerry.schema.model import SCALAR_KINDS, Kind, RefType, ScalarType, VectorType

PLAIN: list[tuple[Any, str]] = [
    (bool, "bool"),
    (int, "int64"),
    (float, "float64"),
    (str, "string"),
    (bytes, "bytes"),
    (UUID, "uuid"),
    (PropertySet, "property_set"),
    (AnyObject, "any"),
    (Ref, "instance_ref"),
    (Annotated[Ref, "Vessel"], "instance_ref<Vessel>"),
    (list[int], "vector<int64>"),
    (list[names.uint8], "vector<uint8>"),
    (list[Annotated[Ref, "Vessel"]], "vector<instance_ref<Vessel>>"),
    (int | None, "int64"),
    (None | int, "int64"),
    (Optional[int], "int64"),  # noqa: UP045
    (Union[int, None], "int64"),  # noqa: UP007
    (names.uint8 | None, "uint8"),
    (list[str] | None, "vector<string>"),
]


@pytest.mark.parametrize(("annotation", "name"), PLAIN, ids=str)
def test_annotation_has_a_field_type(annotation: Any, name: str) -> None:
    classes: dict[str, Any] = {}
    assert field_type(annotation, classes).name == name
    assert classes == {}


def test_there_is_a_name_for_every_built_in_type() -> None:
    own = {"bool", "string", "bytes", "uuid"}
    for name in set(SCALAR_KINDS) - own:
        spelled = "any_object" if name == "any" else name
        assert field_type(getattr(names, spelled), {}) == ScalarType(SCALAR_KINDS[name])
    assert field_type(names.instance_ref, {}) == RefType()


def test_classes_of_types_are_noted(types: TypeSet) -> None:
    classes: dict[str, Any] = {}
    assert field_type(types.Vessel, classes) is types.Vessel.descriptor
    vector: Any = list.__class_getitem__(types.Kind)
    assert field_type(vector | None, classes) == VectorType(types.Kind.descriptor)
    assert classes == {"Vessel": types.Vessel, "Kind": types.Kind}


@pytest.mark.parametrize(
    ("annotation", "why"),
    [
        (datetime.datetime, r"a field cannot be a datetime; use skerry\.timepoint"),
        (datetime.timedelta, r"a field cannot be a timedelta; use skerry\.duration"),
        (dict[str, int], r"a field cannot be dict\[str, int\]; use list\[\.\.\.\] or a struct"),
        (tuple[int, ...], r"use list\[\.\.\.\] or a struct"),
        (set[int], r"use list\[\.\.\.\] or a struct"),
        (list, r"a list has no element type; write list\[\.\.\.\]"),
        (complex, "use a skerry type, a struct or an enum class"),
        (object, "use a skerry type"),
        (int | str, "use a skerry type"),
        (Any, "use a skerry type"),
        (None, "use a skerry type"),
        (Annotated[complex, "unit"], "use a skerry type, a struct or an enum class"),
        ([int], "use a skerry type, a struct or an enum class"),
    ],
    ids=str,
)
def test_invalid_annotation_is_rejected(annotation: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        field_type(annotation, {})


def test_an_annotation_may_carry_more_than_ours() -> None:
    assert field_type(Annotated[int, "unit", ScalarType(Kind.UINT8)], {}).name == "uint8"
    assert field_type(Annotated[int, "unit"], {}).name == "int64"
    assert field_type(Annotated[list[bool] | None, "unit"], {}).name == "vector<bool>"


def test_two_types_of_one_name_are_not_mixed(types: TypeSet) -> None:
    classes: dict[str, Any] = {"Vessel": object}
    with pytest.raises(TypeError, match="two different types have the name Vessel"):
        field_type(types.Vessel, classes)
