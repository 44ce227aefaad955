"""Updates to callbacks."""

from __future__ import annotations

import pytest

from skerry.client.distributor.dispatch import Routes, call_each
from skerry.protocol.distributor.receiving.updates import Packed, Updates
from skerry.protocol.distributor.wire import JAVA_WIRE

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
    call_each(Updates(UPDATES), lambda *given: called.append(given), routes, 2)
    assert called == [("/a", b"1", "x", 4), ("/b", b"2", "x", 3), ("/a", b"3", "x", 2)]


def test_several_subscriptions_are_called_each_with_its_tag() -> None:
    routes = Known()
    called: list[tuple[object, ...]] = []
    call_each(Updates(UPDATES), lambda *given: called.append(given), routes, 0)
    assert called == [
        ("/a", b"1", 1, 2), ("/a", b"1", 2, 2), ("/a", b"3", 1, 0), ("/a", b"3", 2, 0),
    ]  # fmt: skip
    assert routes.found == ["/a", "/b"]


def test_delivery_continues_after_an_error_of_the_callback() -> None:
    routes = Routes()
    routes.is_single = True
    called: list[bytes] = []

    def callback(_subject: str, data: bytes, _tag: object, _waiting: int) -> None:
        called.append(data)
        if data == b"2":
            raise ValueError(data)

    updates = Updates(UPDATES)
    with pytest.raises(ValueError, match="2"):
        call_each(updates, callback, routes, 0)
    assert len(updates) == 1
    call_each(updates, callback, routes, 0)
    assert called == [b"1", b"2", b"3"]


def test_tags_are_found_by_a_subclass() -> None:
    with pytest.raises(NotImplementedError):
        call_each(Updates(UPDATES), lambda *_: None, Routes(), 0)


def packed() -> Updates:
    """The same updates, the first and the last two of them still in their datagrams."""
    updates = Updates()
    for pairs in (UPDATES[:1], UPDATES[1:]):
        body = b"".join(
            JAVA_WIRE.subject_head(subject.encode()) + len(data).to_bytes(4, "big") + data
            for subject, data in pairs
        )
        subjects = [subject for subject, _ in pairs]
        updates.pack(Packed(body, 0, 4, subjects, len(pairs)))
    return updates


@pytest.mark.parametrize("is_single", [True, False])
def test_updates_in_datagrams_are_delivered_in_the_same_way(is_single: bool) -> None:
    reported: list[list[tuple[object, ...]]] = []
    for updates in (Updates(UPDATES), packed()):
        routes, called = Known(), list[tuple[object, ...]]()
        routes.is_single, routes.tag = is_single, "x"
        call_each(updates, lambda *given, called=called: called.append(given), routes, 7)
        reported.append(called)
        assert not len(updates)
    assert reported[0] == reported[1]
    assert reported[0][0][-1] == 9


@pytest.mark.parametrize("is_single", [True, False])
def test_delivery_continues_within_a_datagram_after_an_error(is_single: bool) -> None:
    routes, updates = Known(), packed()
    routes.is_single = is_single
    called: list[tuple[bytes, int]] = []

    def callback(_subject: str, data: bytes, _tag: object, waiting: int) -> None:
        called.append((data, waiting))
        raise ValueError(data)

    for left in (2, 1, 0) if is_single else (2, 0):
        with pytest.raises(ValueError, match="b'"):
            call_each(updates, callback, routes, 0)
        assert len(updates) == left
    call_each(updates, callback, routes, 0)
    assert called == [(b"1", 2), *([(b"2", 1)] if is_single else []), (b"3", 0)]
