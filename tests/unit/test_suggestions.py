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
def test_similar_names_are_found_in_any_case(name: str, meant: str | None) -> None:
    assert nearest(name, ["Alarm", "Vessel"]) == meant


def test_the_nearest_of_several_is_suggested() -> None:
    assert nearest("delay_ms_mx", ["delay_ms_min", "delay_ms_max", "delay"]) == "delay_ms_max"


def test_a_slightly_similar_name_is_not_suggested() -> None:
    assert nearest("abcdefg", ["abcdxyz"]) is None
    assert nearest("abcdefg", ["abcdexg"]) == "abcdexg"


def test_without_candidates_nothing_is_suggested() -> None:
    assert nearest("x", []) is None
