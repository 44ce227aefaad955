"""Rows as commands show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import click
import pytest

from skerry.cli.pipeline.answers import Fields, instant_of, plain_value

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
    assert plain_value(value) == plain


def test_fields_go_by_name_and_unset_ones_are_left_out() -> None:
    row = {"mmsi": 1, "key_": "a", "lat": None, "space": "bay"}
    assert VESSEL.values(row) == {"mmsi": 1, "key": "a"}


def test_key_is_one_value_several_or_none() -> None:
    row = {"mmsi": 1, "key_": "a", "lat": None}
    assert VESSEL.key(row) == 1
    assert Fields(VESSEL.columns, ["mmsi", "key_"]).key(row) == [1, "a"]
    assert Fields(VESSEL.columns, []).key(row) == []


def test_instants_are_checked_by_the_command_line() -> None:
    context, option = click.Context(click.Command("asof")), click.Option(["--at"])
    assert instant_of(context, option, "2026-11-15T14:00:00Z") == 1_794_751_200_000_000_000
    with pytest.raises(click.BadParameter, match="does not say its time zone"):
        instant_of(context, option, "2026-11-15T14:00:00")
