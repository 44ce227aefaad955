"""Subjects and the patterns that select them.

A subject is a path of levels, `/Vessel/244660000`. Levels may be empty, and case is significant. A
pattern is a subject in which a whole level may be `*`, which matches any one level, and the last
one `...`, which matches all remaining levels: one or more. In the Java distributor `...` also
matches none, which `is_java` enables.

`PatternTree` finds the patterns that select a subject. It has a node for each level of each
pattern, so the cost depends on the patterns that begin like the subject, not on the number of
patterns. Subjects repeat, so results are cached.
"""

from __future__ import annotations

from typing import Final, NoReturn

from skerry.errors import LimitExceeded, LocalProtocolError
from skerry.limits import PATTERN_MEMO_CHAR_COUNT_MAX, SUBJECT_CHAR_COUNT_MAX

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
"""The single character with which some editors replace three dots."""
_SHOWN_CHAR_COUNT: Final = 60


def check_subject(text: str) -> str:
    """Return the subject if it is valid for publishing; LocalProtocolError if not."""
    _check_form("subject", text)
    # Few subjects contain any of these, and most of those inside a level.
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
    """Return the pattern with its ellipsis as three dots; LocalProtocolError if it is invalid."""
    _check_form("pattern", text)
    levels = [_REST if level == _ELLIPSIS else level for level in text.split("/")]
    if _REST in levels[:-1]:
        _refuse(
            "pattern",
            text,
            "something follows after ...",
            "... matches all remaining levels, so it can only be the last level; * matches one",
        )
    return "/".join(levels)


def foreign_wildcard(pattern: str) -> tuple[str, str] | None:
    """Return a level of a pattern that is a wild card elsewhere but not here, and the pattern that
    is probably meant; None if there is none.

    Such a level is valid, and matches only itself: `**` of file names, `#` and `+` of MQTT, `>` of
    NATS, and a `*` inside a level.
    """
    levels = pattern.split("/")[1:]
    strange = next((level for level in levels if level in _FOREIGN or _is_glob(level)), None)
    return None if strange is None else (strange, meant_pattern(pattern))


def meant_pattern(text: str) -> str:
    """Return the pattern that somebody probably meant who is used to other systems.

    `prices.>` of NATS, `prices/#` of MQTT and `prices/**` of file names are all `/prices/...`.
    """
    levels = text.strip("/").split("/" if "/" in text else ".")
    if text.strip(". ") in ("", *_FOREIGN, _ONE):
        return f"/{_REST}"
    meant: list[str] = []
    for level in levels:
        if level in _FOREIGN_REST or level in (_REST, _ELLIPSIS):
            return "/".join(["", *meant, _REST])
        meant.append(_ONE if level == "+" or _is_glob(level) else level)
    return "/".join(["", *meant])


_FOREIGN_REST: Final = ("**", "#", ">")
_FOREIGN: Final = (*_FOREIGN_REST, "+")


def _is_glob(level: str) -> bool:
    return _ONE in level and level not in (_ONE, *_FOREIGN)


def covers(pattern: str, other: str) -> bool:
    """Return whether `pattern` selects each subject that `other` selects. Both must be valid.

    A subject is a pattern that selects only itself.
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
    """Return whether there is a subject that both patterns select."""
    mine, others = pattern.split("/"), other.split("/")
    for index in range(min(len(mine), len(others))):
        level, theirs = mine[index], others[index]
        if level == _REST or theirs == _REST:
            return True
        if level != theirs and level != _ONE and theirs != _ONE:
            return False
    return len(mine) == len(others)


class PatternHandle:
    """A pattern in a tree, and its value. The handle is needed to remove the pattern."""

    def __init__(self, pattern: str, value: object, number: int) -> None:
        self.pattern: str = pattern
        self.value: object = value
        self.number: int = number


class PatternTree:
    """Patterns with values, found by the subjects that they select."""

    def __init__(self, *, is_java: bool = False, count_max: int = PATTERN_COUNT_MAX) -> None:
        self._is_java: bool = is_java
        self._count_max: int = count_max
        self._root: _Node = _Node()
        self._handles: dict[int, PatternHandle] = {}
        self._last_number: int = 0
        self._memo: dict[str, list[object]] = {}
        self._memo_size: int = 0

    def __len__(self) -> int:
        """Return the number of patterns; a pattern that was added twice counts twice."""
        return len(self._handles)

    def add(self, pattern: str, value: object) -> PatternHandle:
        """Add a pattern. The same one may be added again; then all its values are found.

        LocalProtocolError for an invalid pattern, LimitExceeded for too many patterns.
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
            node = node.make_child(level)
        self._last_number += 1
        handle = PatternHandle(pattern, value, self._last_number)
        node.handles[handle.number] = handle
        self._handles[handle.number] = handle
        self._forget()
        return handle

    def remove(self, handle: PatternHandle) -> None:
        """Remove a pattern; LocalProtocolError if it is not in the tree."""
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
        # Otherwise nodes without patterns would accumulate as clients subscribe and unsubscribe.
        while levels and path[-1].is_empty():
            path.pop()
            path[-1].drop(levels.pop())
        self._forget()

    def clear(self) -> None:
        self._root = _Node()
        self._handles = {}
        self._forget()

    def match(self, subject: str) -> list[object]:
        """Return the values of all patterns that select the subject: exact levels first, then *,
        then ...

        The list belongs to the tree and must not be changed. It is empty for an invalid subject.
        """
        found = self._memo.get(subject)
        if found is not None:
            return found
        return self._search(subject)

    def matches_any(self, subject: str) -> bool:
        """Return whether any pattern selects the subject."""
        return len(self.match(subject)) > 0

    def _search(self, subject: str) -> list[object]:
        found: list[object] = []
        if self._handles and subject.startswith("/"):
            self._gather(self._root, subject.split("/"), 1, found)
        if len(subject) <= PATTERN_MEMO_CHAR_COUNT_MAX:
            self._remember(subject, found)
        return found

    def _gather(self, node: _Node, levels: list[str], index: int, found: list[object]) -> None:
        """Append the values that select the levels from `index` on, below a node."""
        if index == len(levels):
            node.append_values(found)
            # `/...` selects all subjects either way, because each has a level.
            if self._is_java and node.rest is not None:
                node.rest.append_values(found)
            return
        exact = node.exact.get(levels[index])
        if exact is not None:
            self._gather(exact, levels, index + 1, found)
        if node.one is not None:
            self._gather(node.one, levels, index + 1, found)
        if node.rest is not None:
            node.rest.append_values(found)

    def _remember(self, subject: str, found: list[object]) -> None:
        # The values count too, because many clients may select each of many subjects.
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
    """The patterns with the same levels up to this one."""

    def __init__(self) -> None:
        self.exact: dict[str, _Node] = {}
        self.one: _Node | None = None
        self.rest: _Node | None = None
        self.handles: dict[int, PatternHandle] = {}

    def append_values(self, found: list[object]) -> None:
        found.extend([handle.value for handle in self.handles.values()])

    def child(self, level: str) -> _Node | None:
        if level == _ONE:
            return self.one
        if level == _REST:
            return self.rest
        return self.exact.get(level)

    def make_child(self, level: str) -> _Node:
        """Return the node of a level below this one, which is created if necessary."""
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
        _refuse(what, text, limit, "use fewer levels")


def _refuse(what: str, text: str, detail: str, hint: str) -> NoReturn:
    error = LocalProtocolError(f"{_shown(text)} cannot be used as a {what}: {detail}")
    error.hint = hint
    raise error


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN_CHAR_COUNT else text[:_SHOWN_CHAR_COUNT] + "[...]"
