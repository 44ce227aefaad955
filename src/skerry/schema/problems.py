"""Collecting faults in type definitions, and showing them beside the source they stand in."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Final, Protocol

from skerry import limits
from skerry.errors import Problem, Severity
from skerry.json_values import visible
from skerry.suggestions import nearest

__all__ = ["GUESS_WORK_MAX", "ProblemList", "Spot", "render"]

GUESS_WORK_MAX: Final = 5_000_000
"""Pairs of characters that one run compares to suggest corrections of misspelled names: enough for
every error in a system with hundreds of types, in about a second. Beyond it errors have no
suggestion, so that a file of thousands of wrong names does not take hours."""


_GUESS_START: Final = 64
"""What it takes to begin to compare two names, in pairs of characters."""


class Spot(Protocol):
    """A piece of source and where it stands."""

    @property
    def text(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


class ProblemList:
    """The problems of one run. Errors and warnings are bounded apart: neither hides the other."""

    def __init__(self) -> None:
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []
        self._guess_work = 0

    @property
    def is_full(self) -> bool:
        """Whether looking for more errors is of no use."""
        return len(self.errors) >= limits.PROBLEM_COUNT_MAX

    def error(self, file: str, at: Spot, message: str, *, hint: str | None = None) -> None:
        """Add an error, unless one stands at the same place: it would be an echo of that one."""
        if self.is_full or any(
            (p.line, p.column, p.file) == (at.line, at.column, file) for p in self.errors
        ):
            return
        self.errors.append(_problem(file, at, message, hint, Severity.ERROR))

    def warning(self, file: str, at: Spot, message: str, *, hint: str | None = None) -> None:
        """Add a warning."""
        if len(self.warnings) < limits.PROBLEM_COUNT_MAX:
            self.warnings.append(_problem(file, at, message, hint, Severity.WARNING))

    def guess(self, name: str, candidates: Iterable[str]) -> str | None:
        """The candidate that `name` was probably meant to be, while guessing is still cheap."""
        if self._guess_work > GUESS_WORK_MAX:
            return None
        candidates = list(candidates)
        self._guess_work += sum(_GUESS_START + len(name) * len(one) for one in candidates)
        if self._guess_work > GUESS_WORK_MAX:
            return None
        return nearest(name, candidates)


def render(problem: Problem, source: str | None) -> str:
    """The problem for a terminal: its line of `source` with a mark under the offending text.

    Without a source (or with one too short for the place) only the message and the hint. What is
    not printable is shown by escapes, and of a long line and message only a part.
    """
    rows = [_shortened(str(problem))]
    lines = [] if source is None else _lines(source)
    if 0 < problem.line <= len(lines):
        rows += _excerpt(problem, lines[problem.line - 1])
    if problem.hint:
        rows.append(f"hint: {_shortened(problem.hint)}")
    return "\n".join(rows)


def _problem(file: str, at: Spot, message: str, hint: str | None, severity: Severity) -> Problem:
    return Problem(
        message=message,
        file=file,
        line=at.line,
        column=at.column,
        text=at.text,
        severity=severity,
        hint=hint,
    )


def _lines(source: str) -> list[str]:
    # Not splitlines(): it also splits at form feeds and the like, which the language does not.
    unmarked = source.removeprefix("\ufeff")
    return unmarked.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _shortened(message: str) -> str:
    """The message, without its middle where it quotes too much: its end says what is wrong."""
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
    # A tab stays a tab under the line, so that the mark lands right whatever its width.
    lead = "".join("\t" if char == "\t" else " " * _width(char) for char in line[start:mark_start])
    mark = "^" * (sum(map(_width, line[mark_start:mark_stop])) or 1)
    return [f"{number} | {before}{shown}{after}", f"{margin} | {' ' * len(before)}{lead}{mark}"]


def _window(index: int, length: int) -> tuple[int, int]:
    """From where to where a line of that length is shown, so that the index lies within."""
    room = limits.EXCERPT_CHAR_COUNT_MAX
    start = max(min(index - room // 2, length - room), 0)
    return start, min(start + room, length)


def _width(char: str) -> int:
    """How many columns a terminal gives the character as it is shown."""
    if char == "\t":
        return 1
    shown = visible(char)
    if shown != char:
        return len(shown)
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
