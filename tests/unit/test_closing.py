"""What a `with` closes."""

from __future__ import annotations

import pytest

from skerry.closing import Closing


class Door(Closing):
    def __init__(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


def test_it_is_closed_at_the_end() -> None:
    with Door() as door:
        assert door.is_open
    assert not door.is_open


def test_an_error_closes_it_and_goes_on() -> None:
    door = Door()
    with pytest.raises(ZeroDivisionError), door:
        raise ZeroDivisionError
    assert not door.is_open
