"""Defaults in source: values where they give the text again, the text where not."""

from __future__ import annotations

import pytest

import skerry
from skerry.objects.source.defaults import default_argument
from skerry.objects.source.layout import lay_out
from skerry.objects.source.source_names import SourceNames
from skerry.schema.writer import quote

TYPES = """
enum Light { 1: red, 2: class }
struct Part { 1: float64 x; 2: [default="2.0"] float64 y; 3: Light light; }
"""


def argument(type_name: str, text: str) -> str:
    """The argument for a field of that type and default."""
    types = skerry.define_types(f"{TYPES} struct A {{ 1: [default={quote(text)}] {type_name} x; }}")
    models = [cls.descriptor for cls in types.values()]
    (field,) = types.A.descriptor.fields
    piece = default_argument(field.type, text, SourceNames(models))
    (line,) = lay_out(piece)
    return line


@pytest.mark.parametrize(
    ("type_name", "text", "expected"),
    [
        ("bool", "true", "default=True"),
        ("int32", "-5", "default=-5"),
        ("float64", "0.5", "default=0.5"),
        ("float64", "0", "default=0"),
        ("string", '"ä"', 'default="ä"'),
        ("bytes", '"00ff"', 'default=bytes.fromhex("00ff")'),
        (
            "uuid",
            '"6f1c2a5e-8c3b-4d55-9d1e-0a2b4c6d8e0f"',
            'default=UUID("6f1c2a5e-8c3b-4d55-9d1e-0a2b4c6d8e0f")',
        ),
        ("Light", '"class"', "default=Light.class_"),
        ("property_set", "6", "default=6"),
        ("vector<Light>", '["red", "class"]', "default=[Light.red, Light.class_]"),
        ("Part", '{"x": 1.5, "y": 2.5}', "default=Part(x=1.5, y=2.5)"),
        ("Part", '{"light": "red"}', "default=Part(y=None, light=Light.red)"),
        ("vector<Part>", "[{}]", "default=[Part(y=None)]"),
    ],
)
def test_default_values_equal_their_json_text(type_name: str, text: str, expected: str) -> None:
    assert argument(type_name, text) == expected


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        ("float64", "1e5"),
        ("int32", " 5"),
        ("string", '"\\u00e4"'),
        ("bytes", '"00FF"'),
        ("uuid", '"6F1C2A5E-8C3B-4D55-9D1E-0A2B4C6D8E0F"'),
        ("timepoint", '"2026-11-15T14:03:07Z"'),
        ("vector<timepoint>", '["2026-11-15T14:03:07Z"]'),
        ("Part", '{"y": 1.5, "x": 2.5}'),
        ("Part", '{"x":1.5}'),
    ],
)
def test_json_text_is_kept_if_no_value_results_in_it(type_name: str, text: str) -> None:
    line = argument(type_name, text)
    name, _, literal = line.partition("=")
    assert name == "default_json"
    assert eval(literal) == text
