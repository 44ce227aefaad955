"""Checks a type that Python code declares by the rules of the type language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from skerry.schema.check import define
from skerry.schema.model import EnumType, NamedType, StructType
from skerry.schema.writer import write_type

T = TypeVar("T", StructType, EnumType)


def checked(declared: T, *, qualname: str, known: Mapping[str, NamedType]) -> T:
    """The type as a type file would define it: it is written as text and read back.

    Raises SchemaCheckError with its errors. Warnings are not reported, since they would appear at
    each import; `skerry types check` reports them for the text that `to_dots` returns.
    """
    (type_,) = define(write_type(declared), file=f"<class {qualname}>", known=known).types
    assert isinstance(type_, type(declared))
    return type_
