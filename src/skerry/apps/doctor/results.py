"""The result of a check: ok, a warning or a failure, with facts and advice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    check: str
    verdict: Verdict
    facts: str
    advice: str = ""


def passed(check: str, facts: str, advice: str = "") -> CheckResult:
    return CheckResult(check, "ok", facts, advice)


def warning(check: str, facts: str, advice: str) -> CheckResult:
    """Something can be improved."""
    return CheckResult(check, "warn", facts, advice)


def judged(check: str, facts: str, advice: str, *, is_well: bool) -> CheckResult:
    """The facts, with the advice if something can be improved."""
    return passed(check, facts) if is_well else warning(check, facts, advice)


def failure(check: str, facts: str, advice: str) -> CheckResult:
    """Something does not work."""
    return CheckResult(check, "fail", facts, advice)
