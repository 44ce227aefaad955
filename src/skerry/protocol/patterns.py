"""Subjects and the patterns that select them.

A subject is a path of levels, `/Vessel/244660000`; levels may be empty, and case counts. A pattern
is a subject in which a whole level may be `*`, which stands for any one level, and the last one
`...`, which stands for all the rest: one level or more. The multicast distributor in Java takes
`...` for none as well, and `is_java` does the same.

`PatternTree` tells for a subject which of many patterns select it. It has a node for each level of
each pattern, so the work depends on the patterns that begin like the subject and not on how many
there are. Subjects come again and again, so what was found is remembered.
"""

from __future__ import annotations

from typing import Final, NoReturn

from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.limits import PATTERN_MEMO_CHAR_COUNT_MAX, SUBJECT_CHAR_COUNT_MAX

__all__ = [
    "PATTERN_COUNT_MAX",
    "PATTERN_MEMO_COUNT_MAX",
    "SUBJECT_LEVEL_COUNT_MAX",
    "PatternHandle",
    "PatternTree",
    "check_pattern",
    "check_subject",
    "covers",
    "overlaps",
]

SUBJECT_LEVEL_COUNT_MAX: Final = 64
"""Levels of a subject or pattern. A tree of patterns is walked with one call per level, and has a
node for each. Paths that people write have fewer than ten."""
PATTERN_COUNT_MAX: Final = 200_000
"""Patterns of one tree, each with up to one node per level: more than a thousand clients use."""
PATTERN_MEMO_COUNT_MAX: Final = 65_536
"""Subjects, with the values found for them, that a tree of patterns caches: some megabytes. Beyond
it the cache is cleared. Finding a value again costs a microsecond."""

_ONE: Final = "*"
_REST: Final = "..."
_ELLIPSIS: Final = "\u2026"
"""The single character that some editors make of three dots."""
_SHOWN_CHAR_COUNT: Final = 60


def check_subject(text: str) -> str:
    """The subject, if something may be published under it; LocalProtocolError if not."""
    _check_form("subject", text)
    # Only few subjects have any of these, and then mostly inside of a level.
    if _ONE in text or _REST in text or _ELLIPSIS in text:
        for level in text.split("/"):
            if level in (_ONE, _REST, _ELLIPSIS):
                _refuse(
                    "subject",
                    text,
                    f"the level {level} is a wild card",
                    "publish under one subject, without wild cards",
                )
    return text


def check_pattern(text: str) -> str:
    """The pattern with its ellipsis as three dots; LocalProtocolError if it is none."""
    _check_form("pattern", text)
    levels = [_REST if level == _ELLIPSIS else level for level in text.split("/")]
    if _REST in levels[:-1]:
        _refuse(
            "pattern",
            text,
            "something follows after ...",
            "... stands for all the rest, so it can only be the last level; * stands for one level",
        )
    return "/".join(levels)


def covers(pattern: str, other: str) -> bool:
    """Whether each subject that `other` selects is selected by `pattern`; both are checked ones.

    A subject is a pattern that selects nothing but itself.
    """
    mine, others = pattern.split("/"), other.split("/")
    for index, level in enumerate(mine):
        if index == len(others):
            return False
        if level == _REST:
            return True
        theirs = others[index]
        if theirs == _REST or (level != theirs and level != _ONE):
            return False
    return len(mine) == len(others)


def overlaps(pattern: str, other: str) -> bool:
    """Whether there is a subject that both patterns select."""
    mine, others = pattern.split("/"), other.split("/")
    for index in range(min(len(mine), len(others))):
        level, theirs = mine[index], others[index]
        if level == _REST or theirs == _REST:
            return True
        if level != theirs and level != _ONE and theirs != _ONE:
            return False
    return len(mine) == len(others)


class PatternHandle:
    """A pattern in a tree, and its value; by its handle a pattern is taken out again."""

    def __init__(self, pattern: str, value: object, number: int) -> None:
        self.pattern: str = pattern
        self.value: object = value
        self.number: int = number


class PatternTree:
    """Patterns, each with a value, and the question which of them select a subject."""

    def __init__(self, *, is_java: bool = False, count_max: int = PATTERN_COUNT_MAX) -> None:
        self._is_java: bool = is_java
        self._count_max: int = count_max
        self._root: _Node = _Node()
        self._handles: dict[int, PatternHandle] = {}
        self._last_number: int = 0
        self._memo: dict[str, list[object]] = {}
        self._memo_size: int = 0

    def __len__(self) -> int:
        """How many patterns there are; one that was added twice counts twice."""
        return len(self._handles)

    def add(self, pattern: str, value: object) -> PatternHandle:
        """Add a pattern; the same one may be added again, and its values are all found then.

        LocalProtocolError for what is no pattern, LimitExceeded for one too many.
        """
        pattern = check_pattern(pattern)
        if len(self._handles) >= self._count_max:
            raise LimitExceeded(
                what="the number of subject patterns",
                value=len(self._handles) + 1,
                limit=self._count_max,
            )
        node = self._root
        for level in pattern.split("/")[1:]:
            node = node.child_to_be(level)
        self._last_number += 1
        handle = PatternHandle(pattern, value, self._last_number)
        node.handles[handle.number] = handle
        self._handles[handle.number] = handle
        self._forget()
        return handle

    def remove(self, handle: PatternHandle) -> None:
        """Take a pattern out; LocalProtocolError when it is not there (any more)."""
        if self._handles.get(handle.number) is not handle:
            raise LocalProtocolError(f"the pattern {_shown(handle.pattern)} is not in this tree")
        del self._handles[handle.number]
        path = [self._root]
        levels = handle.pattern.split("/")[1:]
        for level in levels:
            child = path[-1].child(level)
            assert child is not None
            path.append(child)
        del path[-1].handles[handle.number]
        # A node without patterns would otherwise stay for ever, and subscribers come and go.
        while levels and path[-1].is_empty():
            path.pop()
            path[-1].drop(levels.pop())
        self._forget()

    def clear(self) -> None:
        """Take all patterns out."""
        self._root = _Node()
        self._handles = {}
        self._forget()

    def match(self, subject: str) -> list[object]:
        """The values of all patterns that select the subject: exact levels first, then *, then ...

        The list belongs to the tree and must not be changed. What is no subject is selected by
        nothing.
        """
        found = self._memo.get(subject)
        if found is not None:
            return found
        return self._search(subject)

    def matches_any(self, subject: str) -> bool:
        """Whether any pattern selects the subject."""
        return len(self.match(subject)) > 0

    def _search(self, subject: str) -> list[object]:
        found: list[object] = []
        if self._handles and subject.startswith("/"):
            self._gather(self._root, subject.split("/"), 1, found)
        if len(subject) <= PATTERN_MEMO_CHAR_COUNT_MAX:
            self._remember(subject, found)
        return found

    def _gather(self, node: _Node, levels: list[str], index: int, found: list[object]) -> None:
        """What selects the levels from `index` on, below a node; as deep as the patterns are."""
        if index == len(levels):
            node.give(found)
            # `/...` is all subjects either way; there is none without a level.
            if self._is_java and node.rest is not None:
                node.rest.give(found)
            return
        exact = node.exact.get(levels[index])
        if exact is not None:
            self._gather(exact, levels, index + 1, found)
        if node.one is not None:
            self._gather(node.one, levels, index + 1, found)
        if node.rest is not None:
            node.rest.give(found)

    def _remember(self, subject: str, found: list[object]) -> None:
        # The values count too: each of many subjects may be selected by each of many clients.
        size = 1 + len(found)
        if self._memo_size + size > PATTERN_MEMO_COUNT_MAX:
            self._forget()
        if size <= PATTERN_MEMO_COUNT_MAX:
            self._memo[subject] = found
            self._memo_size += size

    def _forget(self) -> None:
        self._memo = {}
        self._memo_size = 0


class _Node:
    """The patterns that have gone the same way up to here."""

    def __init__(self) -> None:
        self.exact: dict[str, _Node] = {}
        self.one: _Node | None = None
        self.rest: _Node | None = None
        self.handles: dict[int, PatternHandle] = {}

    def give(self, found: list[object]) -> None:
        found.extend([handle.value for handle in self.handles.values()])

    def child(self, level: str) -> _Node | None:
        if level == _ONE:
            return self.one
        if level == _REST:
            return self.rest
        return self.exact.get(level)

    def child_to_be(self, level: str) -> _Node:
        """The node below, which is made when it is not there."""
        known = self.child(level)
        if known is not None:
            return known
        made = _Node()
        if level == _ONE:
            self.one = made
        elif level == _REST:
            self.rest = made
        else:
            self.exact[level] = made
        return made

    def drop(self, level: str) -> None:
        if level == _ONE:
            self.one = None
        elif level == _REST:
            self.rest = None
        else:
            del self.exact[level]

    def is_empty(self) -> bool:
        return not self.handles and not self.exact and self.one is None and self.rest is None


def _check_form(what: str, text: str) -> None:
    if len(text) > SUBJECT_CHAR_COUNT_MAX:
        limit = f"{len(text)} characters, the limit is {SUBJECT_CHAR_COUNT_MAX}"
        _refuse(what, text, limit, "use shorter names for the levels")
    if not text.startswith("/"):
        bare = "/..." if text == _ELLIPSIS else "/" + text
        _refuse(what, text, "it does not begin with /", f"write {_shown(bare)}")
    if text.count("/") > SUBJECT_LEVEL_COUNT_MAX:
        limit = f"{text.count('/')} levels, the limit is {SUBJECT_LEVEL_COUNT_MAX}"
        _refuse(what, text, limit, "join some of the levels to one")


def _refuse(what: str, text: str, detail: str, hint: str) -> NoReturn:
    error = LocalProtocolError(f"{_shown(text)} cannot be used as a {what}: {detail}")
    error.hint = hint
    raise error


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHAR_COUNT else text[:_SHOWN_CHAR_COUNT] + "[...]"
