"""Wrong names: what is taken for what was meant, and when no guess is made."""

from __future__ import annotations

import pytest

from skerry.suggestions import nearest


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("VESEL", "Vessel"),
        ("Vessels", "Vessel"),
        ("alarm", "Alarm"),
        ("harbour", None),
        ("", None),
    ],
)
def test_what_is_alike_is_found_whatever_the_case(name: str, meant: str | None) -> None:
    assert nearest(name, ["Alarm", "Vessel"]) == meant


def test_the_nearest_of_several_is_taken() -> None:
    assert nearest("delay_ms_mx", ["delay_ms_min", "delay_ms_max", "delay"]) == "delay_ms_max"


def test_what_is_a_little_alike_is_no_guess() -> None:
    assert nearest("abcdefg", ["abcdxyz"]) is None
    assert nearest("abcdefg", ["abcdexg"]) == "abcdexg"


def test_nothing_to_choose_from_is_no_guess() -> None:
    assert nearest("x", []) is None
