"""Python names for names of types: what is taken gets an underscore, and none is lost."""

from __future__ import annotations

import keyword

import pytest

from skerry.objects.names import python_name, python_names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lat", "lat"),
        ("class", "class_"),
        ("None", "None_"),
        ("match", "match"),
        ("encode", "encode_"),
        ("a b", "a_b"),
        ("größe", "gr__e"),
        ("ns::Type", "ns__Type"),
        ("9lives", "_9lives"),
        ("", "_"),
        ("_", "_"),
        ("__init__", "init___"),
        ("___", "_"),
        ("_private", "_private"),
        ("\x00", "_"),
    ],
)
def test_name_becomes_a_valid_python_name(name: str, expected: str) -> None:
    found = python_name(name, {"encode"})
    assert found == expected
    assert found.isidentifier()
    assert not keyword.iskeyword(found)


def test_names_stay_apart() -> None:
    names = ["encode", "encode_", "a b", "a_b", "a.b", "__x", "x_"]
    found = python_names(names, {"encode"})
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    assert found["encode_"] == "encode_", "what can stay as it is stays"
    assert found["a_b"] == "a_b"
    assert found["x_"] == "x_"
    assert found["encode"] == "encode__"


def test_name_gets_underscores_until_it_is_free() -> None:
    assert python_name("a", {"a", "a_"}) == "a__"
