r"""Patterns of `like`: `%` matches any characters, `_` matches one, `\` escapes the next.

A pattern is untrusted and is tested on every update. So it is not one regular expression, in which
a few `%` can take exponential time. It is cut at its `%` into runs of fixed length. The first and
the last run have fixed positions, and each of the others is matched at the first position where it
fits, which is never worse than a later one.

A run is searched for by its core, from its first literal character to its last one. Without a `_`
in it, that is a search for a text, in linear time. With one, the time may be the length of the core
times that of the text, which has a bound.
"""

from __future__ import annotations

import re
from typing import Any, Final

from skerry.errors import FilterError

LIKE_TEXT_BYTES_MAX: Final = 32_768
"""The longest text that can match a pattern. A search in it takes less than a tenth of a
millisecond in the worst case. Names and lines are shorter. Conditions are not meant to search
documents."""
LIKE_WORK_MAX: Final = 262_144
"""The longest text that can match a pattern with `_` between other characters, times the length of
that run: `%M_ria%` matches texts of up to 52 000 characters. A search for such a run may take this
many comparisons."""
LIKE_FIND_PART_COUNT: Final = 400
"""Comparisons of a client's conditions (`view_part_count_max`) that a pattern counts for if it
is searched for inside a text, such as `%ri%`. All patterns of a client are matched with each
update, and such a search takes up to 0.1 ms."""
LIKE_SEARCH_PART_COUNT: Final = 1000
"""The same for a pattern with `_` inside, such as `%r_a%`: up to 0.25 ms."""


class LikePattern:
    """A pattern that is matched against the bytes of texts; FilterError if it is invalid."""

    def __init__(self, pattern: str) -> None:
        runs = _runs(pattern)
        self._is_open: bool = len(runs) > 1
        self._counts_characters: bool = any(_ANY_ONE in run for run in runs)
        """`_` matches one character of any number of bytes, so the text must be decoded."""
        self._first: bytes = b""
        self._last: bytes = b""
        self._middle: list[bytes] = []
        self._first_of_text: Any = None
        self._last_of_text: Any = None
        self._middle_of_text: list[_Run] = []
        self._last_count: int = len(runs[-1])
        self._work_per_char: int = 0
        """Comparisons for a character of the text in the worst case, if a core has a `_`."""
        inner = [run for run in runs[1:-1] if run]
        if self._counts_characters:
            self._first_of_text = _expression(runs[0])
            self._last_of_text = _expression(runs[-1])
            self._middle_of_text = [_Run(run) for run in inner]
            costs = [run.size for run in self._middle_of_text if run.expression is not None]
            self._work_per_char = max(costs, default=0)
        else:
            self._first = _plain(runs[0])
            self._last = _plain(runs[-1])
            self._middle = [_plain(run) for run in inner]
        self.part_count: int = 1
        """The number of ordinary comparisons that take as long, in the worst case."""
        if self._work_per_char:
            self.part_count = LIKE_SEARCH_PART_COUNT
        elif inner:
            self.part_count = LIKE_FIND_PART_COUNT

    def matches(self, data: bytes) -> bool:
        """Return whether the whole text matches; a text beyond the bounds never does."""
        if len(data) > LIKE_TEXT_BYTES_MAX:
            return False
        if self._counts_characters:
            return self._matches_text(_last_text.decode(data))
        if not self._is_open:
            return data == self._first
        at = len(self._first)
        stop = len(data) - len(self._last)
        if stop < at or not data.startswith(self._first) or not data.endswith(self._last):
            return False
        for run in self._middle:
            found = data.find(run, at, stop)
            if found < 0:
                return False
            at = found + len(run)
        return True

    def _matches_text(self, text: str) -> bool:
        if not self._is_open:
            return self._first_of_text.fullmatch(text) is not None
        if len(text) * self._work_per_char > LIKE_WORK_MAX:
            return False
        begun = self._first_of_text.match(text)
        stop = len(text) - self._last_count
        if begun is None or stop < begun.end() or self._last_of_text.match(text, stop) is None:
            return False
        at: int = begun.end()
        for run in self._middle_of_text:
            at = run.find_end(text, at, stop)
            if at < 0:
                return False
        return True


class _LastText:
    """The last text that was decoded, since many patterns are tested on the same one."""

    def __init__(self) -> None:
        self._last: tuple[bytes, str] = (b"", "")

    def decode(self, data: bytes) -> str:
        last, text = self._last
        if last is not data:
            text = data.decode("utf-8", "surrogateescape")
            # Other threads use it, too: one assignment replaces both.
            self._last = (data, text)
        return text


_last_text: Final = _LastText()


class _Run:
    """The characters between two `%`, with a `_` for any."""

    def __init__(self, run: list[str]) -> None:
        plain = [index for index, character in enumerate(run) if character != _ANY_ONE]
        first, last = (plain[0], plain[-1] + 1) if plain else (len(run), len(run))
        core = run[first:last]
        self.before: int = first
        self.behind: int = len(run) - last
        """The number of `_` before and after the core."""
        self.core: str = "".join(core)
        self.size: int = len(core)
        self.expression: Any = _expression(core) if _ANY_ONE in core else None

    def find_end(self, text: str, at: int, stop: int) -> int:
        """Return the end of the first match from `at` on, or -1."""
        at += self.before
        stop -= self.behind
        if at > stop:
            return -1
        if self.expression is None:
            found = text.find(self.core, at, stop)
            return found if found < 0 else found + self.size + self.behind
        fitting = self.expression.search(text, at, stop)
        if fitting is None:
            return -1
        end: int = fitting.end()
        return end + self.behind


_ANY_ONE: Final = ""
"""The entry of a run for any one character; the other entries are characters."""


def _runs(pattern: str) -> list[list[str]]:
    """Return the characters between the `%` of a pattern."""
    runs: list[list[str]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == "%":
            runs.append([])
        elif character == "_":
            runs[-1].append(_ANY_ONE)
        elif character == "\\":
            escaped = next(characters, None)
            if escaped is None:
                raise FilterError("a pattern ends with `\\`, which escapes the next character")
            runs[-1].append(escaped)
        else:
            runs[-1].append(character)
    try:
        pattern.encode()
    except UnicodeEncodeError:
        # Half a character would match within the bytes of another one.
        raise FilterError("a pattern that is not UTF-8") from None
    return runs


def _plain(run: list[str]) -> bytes:
    return "".join(run).encode()


def _expression(run: list[str]) -> re.Pattern[str]:
    parts = ["." if character == _ANY_ONE else re.escape(character) for character in run]
    return re.compile("".join(parts), re.DOTALL)
