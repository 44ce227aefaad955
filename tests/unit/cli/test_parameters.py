"""Values of options."""

from __future__ import annotations

import click
import pytest

from skerry.cli.parameters import FiniteFloat


@pytest.mark.parametrize("text", ["0", "1.5", "1e308"])
def test_numbers_in_range_are_taken(text: str) -> None:
    assert FiniteFloat(min=0).convert(text, None, None) == float(text)


@pytest.mark.parametrize("text", ["nan", "-nan", "inf", "Infinity", "1e309", "-0.1", "one"])
def test_what_is_no_number_or_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        FiniteFloat(min=0).convert(text, None, None)


def test_without_a_range_infinity_is_still_refused() -> None:
    with pytest.raises(click.BadParameter, match="'-inf' is not a number to count with"):
        FiniteFloat().convert("-inf", None, None)
