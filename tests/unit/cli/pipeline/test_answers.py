"""Rows as commands show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import click
import pytest

from skerry.cli.parameters import Instant
from skerry.cli.pipeline.answers import Fields, json_value, restored
from skerry.objects.typeset import define_types

VESSEL = Fields({"mmsi": "mmsi", "key_": "key", "lat": "lat"}, ["mmsi"])


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (datetime(2026, 11, 15, 15, 0, 0, 500_000, timezone(timedelta(hours=1))), 1794751200.5),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (Decimal(2**64 - 1), 2**64 - 1),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (1.5, 1.5),
        (b"\x01\xff", "01ff"),
        ([b"\x01", None], ["01", None]),
        ({"a": b"\x02", "b": None}, {"a": "02"}),
        (True, True),
        (None, None),
    ],
)
def test_values_are_those_of_json(value: Any, plain: Any) -> None:
    assert json_value(value) == plain


def test_fields_have_their_names_and_unset_ones_are_left_out() -> None:
    row = {"mmsi": 1, "key_": "a", "lat": None, "space": "bay"}
    assert VESSEL.values(row) == {"mmsi": 1, "key": "a"}


def test_key_is_one_value_several_or_none() -> None:
    row = {"mmsi": 1, "key_": "a", "lat": None}
    assert VESSEL.key(row) == 1
    assert Fields(VESSEL.columns, ["mmsi", "key_"]).key(row) == [1, "a"]
    assert Fields(VESSEL.columns, []).key(row) == []


def test_instants_are_checked_by_the_command_line() -> None:
    context, option = click.Context(click.Command("asof")), click.Option(["--at"])
    assert Instant().convert("2026-11-15T14:00:00Z", option, context) == 1_794_751_200_000_000_000
    with pytest.raises(click.BadParameter, match="has no time zone"):
        Instant().convert("2026-11-15T14:00:00", option, context)


@pytest.mark.parametrize("text", ["9999-12-31T00:00:00Z", "99999999999999999999", "1500-01-01T00Z"])
def test_instants_out_of_range_are_rejected(text: str) -> None:
    context, option = click.Context(click.Command("asof")), click.Option(["--at"])
    with pytest.raises(click.BadParameter, match="outside of the years 1678 to 2261"):
        Instant().convert(text, option, context)


def test_values_are_restored_from_the_json_of_spark() -> None:
    types = define_types(
        """
        struct Inner { 1: bytes raw; 2: float32 x; }
        struct Whole {
            1: timepoint at; 2: bytes raw; 3: float64 x; 4: vector<Inner> inner; 5: duration took;
            6: uint64 big; 7: string text; 8: any what; 9: bool is_on; 10: vector<timepoint> times;
        }
        """
    )
    kinds = {field.name: field.type for field in types.Whole.descriptor.fields}
    found = {
        "at": "2026-11-15T14:00:00.250001Z",
        "raw": "AP8=",
        "x": "NaN",
        "inner": [{"raw": "AQ==", "x": "-Infinity"}, {}],
        "took": 1,
        "big": 2**64 - 1,
        "text": "AP8=",
        "what": {"type": "T", "payload": "oA=="},
        "is_on": True,
        "times": ["1970-01-01T00:00:00.000Z"],
    }
    values = {name: json_value(restored(kinds[name], value)) for name, value in found.items()}
    assert values == {
        "at": 1794751200.250001,
        "raw": "00ff",
        "x": "nan",
        "inner": [{"raw": "01", "x": "-inf"}, {}],
        "took": 1.0,
        "big": 2**64 - 1,
        "text": "AP8=",
        "what": {"type": "T", "payload": "a0"},
        "is_on": True,
        "times": [0.0],
    }
    assert restored(kinds["at"], None) is None


def test_a_fact_does_not_hide_a_field_of_its_name() -> None:
    fields = Fields({"time_": "time"}, [])
    assert (fields.fact("time"), fields.fact("sender")) == ("_time", "sender")
