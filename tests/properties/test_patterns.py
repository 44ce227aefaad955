"""Patterns: the tree and the comparisons agree with the plainest reading of what they mean."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from skerry.protocol.patterns import PatternHandle, PatternTree, check_subject, covers, overlaps

pytestmark = pytest.mark.slow

# Few names, so that subjects and patterns meet.
NAMES = ["", "a", "b", "a*"]
SUBJECTS = ["/" + "/".join(levels) for n in (1, 2, 3, 4) for levels in product(NAMES, repeat=n)]
subjects = st.sampled_from(SUBJECTS)
levels = st.lists(st.sampled_from([*NAMES, "*"]), max_size=3)
patterns = st.builds(
    lambda middle, last: "/" + "/".join([*middle, last]),
    levels,
    st.sampled_from([*NAMES, "*", "..."]),
)


def naive(pattern: str, subject: str, *, is_java: bool = False) -> bool:
    """As the words say it: level by level, by a regular expression."""
    text = ""
    for level in pattern.split("/")[1:]:
        if level == "...":
            text += "(/.*)?" if is_java and text else "/.*"
        else:
            text += "/[^/]*" if level == "*" else "/" + re.escape(level)
    return re.fullmatch(text, subject) is not None


@given(st.lists(patterns, max_size=12), subjects, st.booleans())
def test_a_tree_finds_each_pattern_that_selects_a_subject_once(
    many: list[str], subject: str, is_java: bool
) -> None:
    tree = PatternTree(is_java=is_java)
    for number, pattern in enumerate(many):
        tree.add(pattern, number)
    expected = [n for n, p in enumerate(many) if naive(p, subject, is_java=is_java)]
    found = tree.match(subject)
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert tree.matches_any(subject) is bool(expected)


@given(patterns, subjects)
def test_a_subject_is_a_pattern_that_selects_itself(pattern: str, subject: str) -> None:
    assert check_subject(subject) == subject
    assert covers(pattern, subject) is naive(pattern, subject)
    assert overlaps(pattern, subject) is naive(pattern, subject)


@given(patterns, patterns)
def test_patterns_compare_as_the_sets_of_their_subjects_do(pattern: str, other: str) -> None:
    # Enough subjects to tell them apart: a name that no pattern has, and a level more than any.
    universe = [*SUBJECTS, *(f"{subject}/z" for subject in SUBJECTS), "/z", "/z/z", "/z/z/z"]
    universe += [subject.replace("b", "z") for subject in SUBJECTS]
    universe += [f"{subject}/z/z" for subject in SUBJECTS]
    mine = {subject for subject in universe if naive(pattern, subject)}
    others = {subject for subject in universe if naive(other, subject)}
    assert covers(pattern, other) is (others <= mine)
    assert overlaps(pattern, other) is bool(others & mine)


class PatternsComeAndGo(RuleBasedStateMachine):
    """A tree against a list, while patterns are added and removed and subjects asked for."""

    handles = Bundle("handles")

    def __init__(self) -> None:
        super().__init__()
        self.tree = PatternTree()
        self.model: list[PatternHandle] = []

    @rule(target=handles, pattern=patterns)
    def add(self, pattern: str) -> PatternHandle:
        handle = self.tree.add(pattern, object())
        self.model.append(handle)
        return handle

    @rule(handle=handles)
    def remove(self, handle: PatternHandle) -> None:
        if handle in self.model:
            self.tree.remove(handle)
            self.model.remove(handle)

    @rule(subject=subjects)
    def ask(self, subject: str) -> None:
        expected = {id(h.value) for h in self.model if naive(h.pattern, subject)}
        found = [id(value) for value in self.tree.match(subject)]
        assert len(found) == len(expected)
        assert set(found) == expected

    @invariant()
    def counts_agree(self) -> None:
        assert len(self.tree) == len(self.model)


TestPatternsComeAndGo = PatternsComeAndGo.TestCase
