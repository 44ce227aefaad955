"""The garbage collector: full collections are short, and cycles are freed later."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from skerry.runtime.collector import CalmCollector


class Ring:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def collector() -> Iterator[CalmCollector]:
    made = CalmCollector(freeze_count=3)
    made.begin()
    yield made
    made.end()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("collector")
def test_what_survives_is_not_examined_again() -> None:
    before = gc.get_freeze_count()
    assert before > 1000
    kept = [Ring() for _ in range(5000)]
    gc.collect()
    assert gc.get_freeze_count() >= before + 5000
    assert len(gc.get_objects(generation=2)) < 1000
    assert len(kept) == 5000


@pytest.mark.usefixtures("collector")
def test_frozen_cycles_are_collected_later() -> None:
    ring = Ring()
    found = weakref.ref(ring)
    gc.collect()
    del ring
    gc.collect()
    assert found() is not None, "it is frozen"
    gc.collect()
    gc.collect()
    assert found() is None


@pytest.mark.usefixtures("collector")
def test_young_cycles_are_collected_at_once() -> None:
    found = weakref.ref(Ring())
    gc.collect()
    assert found() is None
