"""A type that Python code declared, held to the rules of the type language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from skerry.schema.check import define
from skerry.schema.model import EnumType, NamedType, StructType
from skerry.schema.writer import write_type

__all__ = ["checked"]

T = TypeVar("T", StructType, EnumType)


def checked(declared: T, *, qualname: str, known: Mapping[str, NamedType]) -> T:
    """The type as a file would give it: it is written as text and read back.

    SchemaCheckError has what is wrong with it. What only deserves a look stays unsaid here, where
    it would be said at each import; `skerry types check` says it of the text `to_dots` gives.
    """
    (type_,) = define(write_type(declared), file=f"<class {qualname}>", known=known).types
    assert isinstance(type_, type(declared))
    return type_
