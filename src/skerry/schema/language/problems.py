"""Collects faults in type definitions, and renders them beside their source."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from copy import copy
from typing import Final, Protocol

from skerry import limits
from skerry.errors import Problem, Severity
from skerry.json_values import visible
from skerry.suggestions import nearest

GUESS_WORK_MAX: Final = 5_000_000
"""Pairs of characters that one run compares to suggest corrections of misspelled names: enough for
every error in a system with hundreds of types, in about a second. Beyond it errors have no
suggestion, so that a file of thousands of wrong names does not take hours."""

_GUESS_START: Final = 64
"""The fixed cost of comparing two names, in pairs of characters."""


class Spot(Protocol):
    """A piece of source and its position."""

    @property
    def text(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class ProblemList:
    """The problems of one run. Errors and warnings have separate limits."""

    def __init__(self) -> None:
        self.file = "<text>"
        """The file of the problems that are added."""
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []
        self._work: Counter[str] = Counter()

    def of(self, file: str) -> ProblemList:
        """The same list, to which the problems of a file are added."""
        found = copy(self)
        found.file = file
        return found

    @property
    def is_full(self) -> bool:
        """Whether further errors are not added any more."""
        return len(self.errors) >= limits.PROBLEM_COUNT_MAX

    def error(self, at: Spot, message: str, *, hint: str | None = None) -> None:
        """Add an error, unless there is one at the same position: that is the cause of this one."""
        where = (at.line, at.column, self.file)
        if not (self.is_full or any((p.line, p.column, p.file) == where for p in self.errors)):
            self.errors.append(self._problem(at, message, hint, Severity.ERROR))

    def warning(self, at: Spot, message: str, *, hint: str | None = None) -> None:
        if len(self.warnings) < limits.PROBLEM_COUNT_MAX:
            self.warnings.append(self._problem(at, message, hint, Severity.WARNING))

    def guess(self, name: str, candidates: Iterable[str]) -> str | None:
        """The candidate most like `name`; None if there is none, or if it takes too long."""
        if self._work["guesses"] > GUESS_WORK_MAX:
            return None
        candidates = list(candidates)
        self._work["guesses"] += sum(_GUESS_START + len(name) * len(one) for one in candidates)
        return None if self._work["guesses"] > GUESS_WORK_MAX else nearest(name, candidates)

    def _problem(self, at: Spot, message: str, hint: str | None, severity: Severity) -> Problem:
        return Problem(
            message=message,
            file=self.file,
            line=at.line,
            column=at.column,
            text=at.text,
            severity=severity,
            hint=hint,
        )


def render(problem: Problem, source: str | None) -> str:
    """The problem for a terminal: its line of `source` with a mark under the faulty text.

    Without a source, or if the line does not exist, it has only the message and the hint.
    Characters that are not printable are escaped; long lines and messages are shortened.
    """
    rows = [_shortened(str(problem))]
    lines = [] if source is None else _lines(source)
    if 0 < problem.line <= len(lines):
        rows += _excerpt(problem, lines[problem.line - 1])
    if problem.hint:
        rows.append(f"hint: {_shortened(problem.hint)}")
    return "\n".join(rows)


def _lines(source: str) -> list[str]:
    # splitlines() would also split at form feeds and the like, unlike the language.
    unmarked = source.removeprefix("\ufeff")
    return unmarked.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _shortened(message: str) -> str:
    """The message, without its middle if it is too long: the end states what is wrong."""
    room = limits.EXCERPT_CHAR_COUNT_MAX
    if len(message) <= 2 * room:
        return visible(message)
    return f"{visible(message[:room])} ... {visible(message[-room:])}"


def _excerpt(problem: Problem, line: str) -> list[str]:
    number = str(problem.line)
    margin = " " * len(number)
    start, stop = _window(problem.column - 1, len(line))
    before = "... " if start else ""
    after = " ..." if stop < len(line) else ""
    shown = visible(line[start:stop])
    mark_start = min(problem.column - 1, stop)
    mark_stop = min(mark_start + len(problem.text.split("\n", 1)[0]), stop)
    # A tab is written as a tab under the line too, so that the mark is aligned at any tab width.
    lead = "".join("\t" if char == "\t" else " " * _width(char) for char in line[start:mark_start])
    mark = "^" * (sum(map(_width, line[mark_start:mark_stop])) or 1)
    return [f"{number} | {before}{shown}{after}", f"{margin} | {' ' * len(before)}{lead}{mark}"]


def _window(index: int, length: int) -> tuple[int, int]:
    """The range of a line of that length that is shown; it contains the index."""
    room = limits.EXCERPT_CHAR_COUNT_MAX
    start = max(min(index - room // 2, length - room), 0)
    return start, min(start + room, length)


def _width(char: str) -> int:
    """The width of the character on a terminal, as it is shown."""
    if char == "\t":
        return 1
    shown = visible(char)
    if shown != char:
        return len(shown)
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
