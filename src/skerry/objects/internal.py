"""Classes of the internal types, which are the messages of the protocol."""

from __future__ import annotations

from typing import Any

from skerry.objects.classes import class_of
from skerry.schema.internal import internal_types


def internal_class(name: str) -> Any:
    """The class of an internal type; raises KeyError if there is no such type."""
    return class_of(internal_types()[name])
