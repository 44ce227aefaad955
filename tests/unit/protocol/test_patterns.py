"""Subject patterns: the subjects they select, invalid ones, and the cache of a tree."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.limits import PATTERN_MEMO_CHAR_COUNT_MAX, SUBJECT_CHAR_COUNT_MAX
from skerry.protocol.patterns import (
    PATTERN_COUNT_MAX,
    PATTERN_MEMO_COUNT_MAX,
    SUBJECT_LEVEL_COUNT_MAX,
    PatternTree,
    check_pattern,
    check_subject,
    covers,
    foreign_wildcard,
    meant_pattern,
    overlaps,
)


def tree_of(*patterns: str, is_java: bool = False) -> PatternTree:
    tree = PatternTree(is_java=is_java)
    for pattern in patterns:
        tree.add(pattern, pattern)
    return tree


@pytest.mark.parametrize(
    ("patterns", "subject", "found"),
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
        (["/..."], "/", ["/..."]),
        (["/..."], "/foo", ["/..."]),
        (["/..."], "/foo/bar/fie", ["/..."]),
        (["/*"], "/foo", ["/*"]),
        (["/foo/a", "/foo/*/bar"], "/foo/x/bar", ["/foo/*/bar"]),
        (["/foo/*/bar", "/foo/x/y"], "/foo/x/bar", ["/foo/*/bar"]),
        (["/foo/a", "/foo/*"], "/foo/x/bar", []),
        (["/foo/a", "/foo/*"], "/foo/a", ["/foo/a", "/foo/*"]),
        (["/foo/*", "/foo/..."], "/foo/x", ["/foo/*", "/foo/..."]),
        (["/foo/bar", "/foo/bar"], "/foo/bar", ["/foo/bar", "/foo/bar"]),
        (["/foo/b*"], "/foo/bar", []),
        (["/foo/b*"], "/foo/b*", ["/foo/b*"]),
        (["/Foo"], "/foo", []),
        (["/foo/\u2026"], "/foo/x", ["/foo/\u2026"]),
        (["/foo/*"], "/foo/", ["/foo/*"]),
        (["/foo/..."], "/foo/", ["/foo/..."]),
        (["/*/*"], "//", ["/*/*"]),
        (["/"], "/", ["/"]),
        (["/..."], "foo", []),
        (["/*"], "", []),
    ],
)
def test_a_tree_finds_the_patterns_that_select_a_subject(
    patterns: list[str], subject: str, found: list[str]
) -> None:
    tree = tree_of(*patterns)
    assert tree.match(subject) == found
    assert tree.match(subject) == found  # as remembered
    assert tree.matches_any(subject) is bool(found)


@pytest.mark.parametrize(
    ("pattern", "subject", "is_found"),
    [
        ("/foo/bar/...", "/foo/bar", True),
        ("/foo/bar/...", "/foo/bar/x", True),
        ("/foo/bar/...", "/foo", False),
        ("/foo/*/...", "/foo/x", True),
        ("/...", "/foo", True),
    ],
)
def test_in_java_the_rest_may_be_empty(pattern: str, subject: str, is_found: bool) -> None:
    assert tree_of(pattern, is_java=True).matches_any(subject) is is_found


def test_exact_levels_precede_any_one_and_the_rest() -> None:
    patterns = ["/a/...", "/...", "/*/*", "/a/*", "/*/b", "/a/b", "/*/..."]
    expected = ["/a/b", "/a/*", "/a/...", "/*/b", "/*/*", "/*/...", "/..."]
    assert tree_of(*patterns).match("/a/b") == expected
    assert tree_of(*reversed(patterns)).match("/a/b") == expected


@pytest.mark.parametrize("pattern", ["/a/b", "/a/*", "/a/...", "/...", "/*/x/..."])
def test_a_removed_pattern_is_not_found_and_leaves_no_nodes(pattern: str) -> None:
    tree = tree_of("/a/c")
    handle = tree.add(pattern, "value")
    assert (len(tree), handle.pattern, handle.value) == (2, pattern, "value")
    tree.remove(handle)
    assert len(tree) == 1
    assert node_count(tree) == node_count(tree_of("/a/c"))
    assert "value" not in tree.match("/a/x/b")
    assert tree.match("/a/c") == ["/a/c"]


def node_count(tree: PatternTree) -> int:
    """Nodes of a tree, by going through all of it."""
    waiting, count = [tree._root], 0
    while waiting:
        node = waiting.pop()
        count += 1
        waiting += [*node.exact.values(), *(n for n in (node.one, node.rest) if n is not None)]
    return count


def test_one_of_two_equal_patterns_can_be_removed() -> None:
    tree = PatternTree()
    first, second = tree.add("/a", 1), tree.add("/a", 2)
    tree.remove(first)
    assert tree.match("/a") == [2]
    tree.remove(second)
    assert (len(tree), tree.match("/a")) == (0, [])


def test_a_pattern_is_removed_once_and_from_its_own_tree() -> None:
    tree, other = PatternTree(), PatternTree()
    handle = tree.add("/a", 1)
    other.add("/a", 1)
    with pytest.raises(LocalProtocolError, match="/a is not in this tree"):
        other.remove(handle)
    tree.remove(handle)
    with pytest.raises(LocalProtocolError, match="/a is not in this tree"):
        tree.remove(handle)


def test_a_tree_can_be_emptied() -> None:
    tree = tree_of("/a", "/*")
    assert tree.matches_any("/a")
    tree.clear()
    assert (len(tree), tree.match("/a")) == (0, [])


def test_the_cache_is_cleared_when_patterns_change() -> None:
    tree = PatternTree()
    assert tree.match("/a") == []
    handle = tree.add("/*", 1)
    assert tree.match("/a") == [1]
    tree.remove(handle)
    assert tree.match("/a") == []


def test_subjects_and_values_remembered_are_bounded() -> None:
    tree = tree_of("/*", "/...", "/x/...")
    for number in range(PATTERN_MEMO_COUNT_MAX // 3 + 2):
        assert len(tree.match(f"/{number}")) == 2
        assert tree._memo_size <= PATTERN_MEMO_COUNT_MAX
    # One more than fits made it forget the others.
    assert 0 < len(tree._memo) < 10
    assert tree.match("/0") == ["/*", "/..."]


@pytest.mark.slow
def test_more_values_than_are_remembered_are_found_all_the_same() -> None:
    tree = PatternTree()
    for number in range(PATTERN_MEMO_COUNT_MAX):
        tree.add("/a", number)
    assert len(tree.match("/a")) == PATTERN_MEMO_COUNT_MAX
    assert tree._memo == {}


@pytest.mark.parametrize(("extra", "is_remembered"), [(0, True), (1, False)])
def test_long_subjects_are_not_remembered(extra: int, is_remembered: bool) -> None:
    tree = tree_of("/*")
    subject = "/".ljust(PATTERN_MEMO_CHAR_COUNT_MAX + extra, "x")
    assert tree.match(subject) == ["/*"]
    assert (subject in tree._memo) is is_remembered


def test_a_tree_has_room_for_so_many_patterns_and_no_more() -> None:
    tree = PatternTree(count_max=2)
    tree.add("/a", 1)
    handle = tree.add("/b", 2)
    with pytest.raises(LimitExceeded, match="is 3, the limit is 2"):
        tree.add("/c", 3)
    assert (len(tree), tree.match("/c")) == (2, [])
    tree.remove(handle)
    tree.add("/c", 3)


@pytest.mark.slow
def test_the_usual_room_of_a_tree_can_be_filled() -> None:
    tree = PatternTree()
    for _ in range(PATTERN_COUNT_MAX):
        tree.add("/a", None)
    with pytest.raises(LimitExceeded, match=str(PATTERN_COUNT_MAX)):
        tree.add("/a", None)


def test_the_deepest_pattern_is_walked() -> None:
    deepest = "/*" * (SUBJECT_LEVEL_COUNT_MAX - 1) + "/..."
    assert tree_of(deepest).matches_any("/x" * SUBJECT_LEVEL_COUNT_MAX)
    # Default subjects of strangers' types may be deeper than what may be published by name.
    assert tree_of(deepest).matches_any("/x" * 100_000)


@pytest.mark.parametrize(
    "pattern", ["/", "/a", "/a/*", "/*", "/...", "/a/b*", "/a//b", "/a/...b", "/ä", "/a.../b"]
)
def test_a_valid_pattern_is_unchanged(pattern: str) -> None:
    assert check_pattern(pattern) == pattern


def test_the_ellipsis_character_becomes_three_dots() -> None:
    assert check_pattern("/foo/\u2026") == "/foo/..."
    assert PatternTree().add("/foo/\u2026", 1).pattern == "/foo/..."


@pytest.mark.parametrize(
    ("pattern", "words", "hint"),
    [
        ("/foo/.../bar", "something follows after ...", "only be the last level"),
        ("/.../...", "something follows after ...", "only be the last level"),
        ("/\u2026/x", "something follows after ...", "only be the last level"),
        ("*", "does not begin with /", "write /*"),
        ("...", "does not begin with /", "write /..."),
        ("\u2026", "does not begin with /", "write /..."),
        ("foo/bar", "does not begin with /", "write /foo/bar"),
        ("", "does not begin with /", "write /"),
    ],
)
def test_an_invalid_pattern_is_rejected_and_the_tree_is_unchanged(
    pattern: str, words: str, hint: str
) -> None:
    tree = tree_of("/foo/x")
    with pytest.raises(LocalProtocolError, match=words) as caught:
        tree.add(pattern, 1)
    assert hint in (caught.value.hint or "")
    assert (len(tree), tree.match("/foo/x"), tree.match("/foo/y")) == (1, ["/foo/x"], [])
    assert node_count(tree) == node_count(tree_of("/foo/x"))


@pytest.mark.parametrize("subject", ["/", "/a", "/a/", "//", "/a/b*", "/a/...b", "/a*/**", "/ä"])
def test_a_valid_subject_is_unchanged(subject: str) -> None:
    assert check_subject(subject) == subject


@pytest.mark.parametrize(
    ("subject", "words"),
    [
        ("/foo/*", "the level \\* is a wild card"),
        ("/*/foo", "the level \\* is a wild card"),
        ("/foo/...", "the level ... is a wild card"),
        ("/\u2026", "is a wild card"),
        ("foo", "does not begin with /"),
        ("", "does not begin with /"),
    ],
)
def test_an_invalid_subject_cannot_be_published(subject: str, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words) as caught:
        check_subject(subject)
    assert caught.value.hint


@pytest.mark.parametrize("check", [check_subject, check_pattern])
def test_subjects_and_patterns_are_bounded(check: Callable[[str], str]) -> None:
    longest = "/".ljust(SUBJECT_CHAR_COUNT_MAX, "x")
    deepest = "/x" * SUBJECT_LEVEL_COUNT_MAX
    assert (check(longest), check(deepest)) == (longest, deepest)
    with pytest.raises(LocalProtocolError, match=f"limit is {SUBJECT_CHAR_COUNT_MAX}") as caught:
        check(longest + "x")
    assert len(str(caught.value)) < 200
    with pytest.raises(LocalProtocolError, match=f"limit is {SUBJECT_LEVEL_COUNT_MAX}"):
        check(deepest + "/x")


@pytest.mark.parametrize(
    ("pattern", "other", "is_covered"),
    [
        ("/a", "/a", True),
        ("/a", "/b", False),
        ("/a", "/*", False),
        ("/*", "/a", True),
        ("/*", "/*", True),
        ("/*", "/...", False),
        ("/*", "/a/b", False),
        ("/...", "/a/b", True),
        ("/...", "/...", True),
        ("/...", "/*", True),
        ("/a/...", "/a", False),
        ("/a/...", "/a/*", True),
        ("/a/...", "/a/b/...", True),
        ("/a/...", "/...", False),
        ("/a/...", "/*/b", False),
        ("/*/...", "/a/b", True),
        ("/a/*/c", "/a/b/c", True),
        ("/a/*/c", "/a/b/*", False),
        ("/a/b", "/a", False),
    ],
)
def test_a_pattern_covers_another_if_it_selects_all_the_other_does(
    pattern: str, other: str, is_covered: bool
) -> None:
    assert covers(pattern, other) is is_covered


@pytest.mark.parametrize(
    ("pattern", "other", "is_shared"),
    [
        ("/a", "/a", True),
        ("/a", "/b", False),
        ("/a", "/*", True),
        ("/*/b", "/a/*", True),
        ("/*/b", "/a/c", False),
        ("/a/...", "/*/b/c", True),
        ("/a/...", "/a", False),
        ("/a/...", "/b/...", False),
        ("/...", "/", True),
        ("/*", "/a/b", False),
    ],
)
def test_patterns_overlap_if_both_select_some_subject(
    pattern: str, other: str, is_shared: bool
) -> None:
    assert overlaps(pattern, other) is is_shared
    assert overlaps(other, pattern) is is_shared


@pytest.mark.parametrize(
    ("text", "level", "meant"),
    [
        ("/a/**", "**", "/a/..."),
        ("/a/**/b", "**", "/a/..."),
        ("/a/#", "#", "/a/..."),
        ("/a/>", ">", "/a/..."),
        ("/+/b", "+", "/*/b"),
        ("/a/b*", "b*", "/a/*"),
    ],
)
def test_wild_cards_of_other_systems_are_found(text: str, level: str, meant: str) -> None:
    assert foreign_wildcard(text) == (level, meant)


def test_ordinary_patterns_have_no_foreign_wild_card() -> None:
    assert [foreign_wildcard(text) for text in ("/a/*", "/...", "/a", "/a/#1")] == [None] * 4


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("prices/*", "/prices/*"),
        ("prices.>", "/prices/..."),
        ("prices.*.bid", "/prices/*/bid"),
        ("prices/#", "/prices/..."),
        ("#", "/..."),
        ("*", "/..."),
        (">", "/..."),
        ("...", "/..."),
    ],
)
def test_texts_without_a_slash_are_patterns_of_other_systems(text: str, meant: str) -> None:
    assert meant_pattern(text) == meant
