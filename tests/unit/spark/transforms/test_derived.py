from __future__ import annotations

from skerry.spark.transforms.derived import DERIVED, Derived


def test_derived_tables_have_the_column_they_are_divided_by() -> None:
    assert [derived.name for derived in DERIVED] == ["rates", "links", "sessions", "alarms"]
    for derived in DERIVED:
        assert isinstance(derived, Derived)
        assert derived.partition_by in derived.schema.names
