"""Specifications of fields."""

from __future__ import annotations

from typing import Any

import pytest

from skerry.objects.spec import FieldSpec


def test_field_is_declared_by_a_number() -> None:
    assert FieldSpec(tag=1).tag == 1
    wrong: Any = "1"
    with pytest.raises(TypeError, match="declared by its tag, an int, not by '1'"):
        FieldSpec(tag=wrong)


def test_options_are_texts_or_bools() -> None:
    assert FieldSpec(tag=1, options=(("a", "b"), ("c", True))).options
    wrong: Any = (("a", 5),)
    with pytest.raises(TypeError, match="the option a is 5"):
        FieldSpec(tag=1, options=wrong)
