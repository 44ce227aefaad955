"""Classes of the internal types."""

from __future__ import annotations

import pytest

from skerry.objects.internal import internal_class
from skerry.schema.internal import internal_types


def test_there_is_a_class_of_every_internal_type() -> None:
    for name, type_ in internal_types().items():
        assert internal_class(name).descriptor is type_


def test_unknown_internal_type_raises_key_error() -> None:
    with pytest.raises(KeyError, match="Vessel"):
        internal_class("Vessel")


def test_the_field_that_is_called_like_a_property_of_objects() -> None:
    header = internal_class("DotsHeader")(typeName="T", attributes_=6)
    assert header.attributes_ == 6
    assert list(header.attributes) == [1, 3]
    assert header.encode().hex() == "a20161540306"
