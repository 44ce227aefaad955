from __future__ import annotations

from skerry.engine.dispatch.client_queue import Source


def test_published_types_are_noted_in_order_and_once() -> None:
    source = Source(7)
    for name in ("Boat", "Car", "Boat"):
        source.note_published(name)
    assert list(source.published) == ["Boat", "Car"]
