from __future__ import annotations

from skerry.spark.transforms.alarms import AlarmConfig
from skerry.spark.transforms.derived import DERIVED, Derived, derived_with


def test_derived_tables_have_the_column_they_are_divided_by() -> None:
    assert [derived.name for derived in DERIVED] == ["rates", "links", "sessions", "alarms"]
    for derived in DERIVED:
        assert isinstance(derived, Derived)
        assert derived.partition_by in derived.schema.names


def test_bounds_of_alarms_can_be_others() -> None:
    made = derived_with(AlarmConfig(slow_delay_ms_min=5.0))
    assert [table.name for table in made] == [table.name for table in DERIVED]
    assert made[:-1] == DERIVED[:-1]
    assert made[-1].build != DERIVED[-1].build
