"""Which types are site messages."""

from __future__ import annotations

import pytest

from skerry.engine.types.scopes import is_site_message
from skerry.schema.check import define
from skerry.schema.internal import internal_types
from skerry.schema.model import StructType


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("cached=false", True),
        ('cached=false, scope="site"', True),
        ('cached=false, scope="global"', True),
        ('cached=false, scope="server"', False),
        ('cached=false, scope="program"', False),
        ("cached=false, local", False),
        ("cached", False),
        ('cached, scope="site"', False),
        ("substruct_only", False),
    ],
)
def test_site_messages_are_recognized_by_flags_and_scope(options: str, expected: bool) -> None:
    (type_,) = define(f"struct T [{options}] {{ 1: uint32 x; }}", file="x").types
    assert isinstance(type_, StructType)
    assert is_site_message(type_) is expected


def test_internal_types_are_not_site_messages() -> None:
    structs = [type_ for type_ in internal_types().values() if isinstance(type_, StructType)]
    assert not any(is_site_message(type_) for type_ in structs)
