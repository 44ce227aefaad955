"""Updates to callbacks."""

from __future__ import annotations

import pytest

from skerry.client.distributor.dispatch import Routes, call_each

UPDATES = [("/a", b"1"), ("/b", b"2"), ("/a", b"3")]


class Known(Routes):
    """Finds tags, and counts how often it had to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def find(self, subject: str) -> list[object]:
        self.found.append(subject)
        tags: list[object] = [1, 2] if subject == "/a" else []
        self.known[subject] = tags
        return self.known[subject]


def test_a_single_subscription_gets_all_with_its_tag() -> None:
    routes = Routes()
    routes.is_single, routes.tag = True, "x"
    called: list[tuple[object, ...]] = []
    call_each(iter(UPDATES), lambda *given: called.append(given), routes, 5)
    assert called == [("/a", b"1", "x", 4), ("/b", b"2", "x", 3), ("/a", b"3", "x", 2)]


def test_several_subscriptions_are_called_each_with_its_tag() -> None:
    routes = Known()
    called: list[tuple[object, ...]] = []
    call_each(iter(UPDATES), lambda *given: called.append(given), routes, 3)
    assert called == [
        ("/a", b"1", 1, 2), ("/a", b"1", 2, 2), ("/a", b"3", 1, 0), ("/a", b"3", 2, 0),
    ]  # fmt: skip
    assert routes.found == ["/a", "/b"]


def test_whoever_catches_may_go_on() -> None:
    routes = Routes()
    routes.is_single = True
    called: list[bytes] = []

    def callback(_subject: str, data: bytes, _tag: object, _waiting: int) -> None:
        called.append(data)
        if data == b"2":
            raise ValueError(data)

    left = iter(UPDATES)
    with pytest.raises(ValueError, match="2"):
        call_each(left, callback, routes, 3)
    call_each(left, callback, routes, 1)
    assert called == [b"1", b"2", b"3"]


def test_tags_are_found_by_a_subclass() -> None:
    with pytest.raises(NotImplementedError):
        call_each(iter(UPDATES), lambda *_: None, Routes(), 3)
