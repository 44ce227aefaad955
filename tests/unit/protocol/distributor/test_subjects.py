"""Subjects from the wire: decoded, matched, remembered within bounds."""

from __future__ import annotations

import pytest

from skerry.errors import LocalProtocolError
from skerry.limits import DISTRIBUTOR_MEMO_BYTES_MAX
from skerry.protocol.distributor.subjects import Subjects


def test_a_subject_without_subscribers_resolves_to_an_empty_text() -> None:
    subjects = Subjects()
    subjects.add("/a/*", 1)
    assert subjects.resolve(b"/a/b") == "/a/b"
    assert subjects.resolve(b"/b") == ""
    assert subjects.memo == {b"/a/b": "/a/b", b"/b": ""}
    assert subjects.match("/a/b") == [1]


def test_subscribing_and_unsubscribing_clear_the_cache() -> None:
    subjects = Subjects()
    memo = subjects.memo
    handle = subjects.add("/a", 1)
    assert subjects.resolve(b"/b") == ""
    subjects.add("/b", 2)
    assert memo == {}
    assert subjects.resolve(b"/b") == "/b"
    subjects.remove(handle)
    assert subjects.resolve(b"/a") == ""
    assert len(subjects) == 1
    with pytest.raises(LocalProtocolError):
        subjects.remove(handle)
    subjects.clear()
    assert len(subjects) == 0
    assert subjects.memo is memo
    assert memo == {}


@pytest.mark.parametrize("raw", [b"", b"foo", b"foo/bar"])
def test_each_invalid_subject_is_counted(raw: bytes) -> None:
    subjects = Subjects()
    subjects.add("/...", 1)
    assert subjects.resolve(raw) == ""
    assert subjects.resolve(raw) == ""
    assert subjects.refused_count == 2
    assert raw not in subjects.memo


def test_bytes_that_are_not_utf8_are_read_one_letter_each() -> None:
    subjects = Subjects()
    subjects.add("/...", 1)
    assert subjects.resolve("/å".encode()) == "/å"
    assert subjects.resolve(b"/\xe5\xe4") == "/åä"


def test_the_java_way_of_matching_is_an_option() -> None:
    for is_java, found in ((False, ""), (True, "/foo/bar")):
        subjects = Subjects(is_java=is_java)
        subjects.add("/foo/bar/...", 1)
        assert subjects.resolve(b"/foo/bar") == found


def test_the_memory_is_emptied_before_it_is_too_large() -> None:
    subjects = Subjects()
    subjects.add("/...", 1)
    size = 100_000
    count = DISTRIBUTOR_MEMO_BYTES_MAX // (2 * size) + 1
    for number in range(count):
        subjects.resolve(b"/%d" % number + bytes(size))
        assert sum(2 * len(raw) for raw in subjects.memo) <= DISTRIBUTOR_MEMO_BYTES_MAX
    assert len(subjects.memo) < count


@pytest.mark.parametrize(
    ("patterns", "published", "found"),
    [
        (["/foo/bar"], "/foo/bar", ["/foo/bar"]),
        (["/foo/bar"], "/foo/bar/fie", []),
        (["/foo/*"], "/foo/bar", ["/foo/*"]),
        (["/foo/*"], "/foo", []),
        (["/foo/*"], "/foo/bar/fie", []),
        (["/foo/*/bar/*"], "/foo/x/bar/y", ["/foo/*/bar/*"]),
        (["/foo/bar/..."], "/foo/bar/a", ["/foo/bar/..."]),
        (["/foo/bar/..."], "/foo/bar/a/b/c", ["/foo/bar/..."]),
        (["/foo/bar/..."], "/foo/bar", []),
        (["/..."], "/anything/at/all", ["/..."]),
        (["/*"], "/foo", ["/*"]),
        (["/foo/a", "/foo/*/bar"], "/foo/x/bar", ["/foo/*/bar"]),
        (["/foo/*/bar", "/foo/x/y"], "/foo/x/bar", ["/foo/*/bar"]),
        (["/foo/a", "/foo/*"], "/foo/x/bar", []),
        (["/foo/a", "/foo/*"], "/foo/a", ["/foo/a", "/foo/*"]),
        (["/foo/*", "/foo/..."], "/foo/x", ["/foo/*", "/foo/..."]),
        (["/foo/...", "/foo/*", "/foo/x"], "/foo/x", ["/foo/x", "/foo/*", "/foo/..."]),
        (["/foo/bar", "/foo/bar"], "/foo/bar", ["/foo/bar", "/foo/bar"]),
        (["/foo/b*"], "/foo/bar", []),
        (["/Foo"], "/foo", []),
        (["/foo/\u2026"], "/foo/x", ["/foo/\u2026"]),
        (["/foo/*"], "/foo/", ["/foo/*"]),
        (["/*/*"], "//", ["/*/*"]),
    ],
)
def test_subscriptions_select_the_subjects_of_the_table(
    patterns: list[str], published: str, found: list[str]
) -> None:
    subjects = Subjects()
    for pattern in patterns:
        subjects.add(pattern, pattern)
    assert subjects.resolve(published.encode()) == (published if found else "")
    assert subjects.match(published) == found


@pytest.mark.parametrize("pattern", ["/foo/.../bar", "*", "...", "", "foo/bar"])
def test_an_invalid_pattern_is_rejected_and_not_added(pattern: str) -> None:
    subjects = Subjects()
    subjects.add("/foo/*", 1)
    with pytest.raises(LocalProtocolError):
        subjects.add(pattern, 2)
    assert subjects.match("/foo/bar") == [1]
    assert len(subjects) == 1
