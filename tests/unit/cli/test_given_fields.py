"""Objects from arguments."""

from __future__ import annotations

import click
import pytest

import skerry
from skerry.cli.given_fields import given_fields

VESSEL = skerry.define_types(
    "struct Vessel { 1: [key] uint32 mmsi; 2: string name; 3: float64 lat; }"
).Vessel


def test_text_is_literal_and_the_rest_json() -> None:
    assert given_fields(VESSEL, ("mmsi=1", "name=2", "lat=3.5")) == {
        "mmsi": 1,
        "name": "2",
        "lat": 3.5,
    }
    assert given_fields(VESSEL, ("mmsi=1",), ("lat",)) == {"mmsi": 1, "lat": None}
    assert given_fields(VESSEL, ("name==",), needs_key=False) == {"name": "="}


@pytest.mark.parametrize(
    ("fields", "cleared", "words"),
    [
        (("name=a",), (), "the key of Vessel is incomplete"),
        (("mmsi=1", "mmsi=2"), (), "mmsi is given twice"),
        (("mmsi=1", "lat=2"), ("lat",), "lat has a value and is also in --clear"),
        (("mmsi",), (), "which is one argument without spaces"),
    ],
)
def test_mistakes_are_usage_errors(
    fields: tuple[str, ...], cleared: tuple[str, ...], words: str
) -> None:
    with pytest.raises(click.UsageError, match=words):
        given_fields(VESSEL, fields, cleared)
