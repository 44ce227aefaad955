"""Events of a carriage."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from skerry.engine.carriage.distributor.events import (
    CARRIAGE_DROPS,
    CarriageStatistics,
    DefinitionConflict,
)


def test_statistics_name_every_reason(site: Any) -> None:
    statistics = site.add().statistics()
    assert statistics.dropped == {reason.value: 0 for reason in CARRIAGE_DROPS}
    assert isinstance(statistics, CarriageStatistics)


def test_events_are_values() -> None:
    event = DefinitionConflict(type_name="T", sender="x", detail="y")
    assert event == DefinitionConflict(type_name="T", sender="x", detail="y")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.detail = "z"  # type: ignore[misc]
