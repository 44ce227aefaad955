"""Collecting faults in type definitions, and showing them beside the source they stand in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from skerry import limits
from skerry.errors import Problem, Severity
from skerry.spelling import nearest

__all__ = ["ProblemList", "Spot", "render"]


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
        if self._guess_work > limits.GUESS_WORK_MAX:
            return None
        candidates = list(candidates)
        self._guess_work += sum(_GUESS_START + len(name) * len(one) for one in candidates)
        if self._guess_work > limits.GUESS_WORK_MAX:
            return None
        return nearest(name, candidates)


def render(problem: Problem, source: str | None) -> str:
    """The problem for a terminal: its line of `source` with a mark under the offending text.

    Without a source (or with one too short for the place) only the message and the hint.
    """
    rows = [str(problem)]
    lines = [] if source is None else _lines(source)
    if 0 < problem.line <= len(lines):
        rows += _excerpt(problem, lines[problem.line - 1])
    if problem.hint:
        rows.append(f"hint: {problem.hint}")
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


def _excerpt(problem: Problem, line: str) -> list[str]:
    number = str(problem.line)
    margin = " " * len(number)
    # A tab stays a tab under the line, so that the mark lands right whatever its width.
    lead = "".join("\t" if char == "\t" else " " for char in line[: problem.column - 1])
    lead += " " * (problem.column - 1 - len(lead))
    room = max(len(line) - problem.column + 1, 1)
    length = min(len(problem.text.split("\n", 1)[0]) or 1, room)
    return [f"{number} | {line}", f"{margin} | {lead}{'^' * length}"]
