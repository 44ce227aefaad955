"""The record of all requests of simulated programs.

Every request has a unique number and states how it is to be answered. So a checker can compare each
response, and each execution, with its request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry.objects.typeset import define_types
from skerry.testing.machines.program import Publisher

__all__ = ["HANDLERS", "MANNERS", "TASKS", "Asked", "Tasks"]

_FIELDS_TEXT: Final = "1: uint64 number; 2: string manner; 3: uint32 delayMs; 4: string note;"
TASKS: Final = define_types(
    f"struct Task [cached=false] {{ {_FIELDS_TEXT} }}"
    f"struct Chore [cached=false] {{ {_FIELDS_TEXT} }}"
    "struct Result [cached=false] { 1: uint64 number; 2: string server; }"
)
HANDLERS: Final = (("Task", ""), ("Task", "port"), ("Chore", "port"))
"""Types of requests, with the names of their handlers."""

MANNERS: Final = {"now": 10, "late": 8, "empty": 2, "fail": 2, "never": 1}
"""How requests are to be answered, with weights: at once, after `delayMs`, without an object, with
a failure, or only by `answer_all`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request."""

    number: int
    asker: Publisher
    type_name: str
    handler: str
    manner: str
    timeout_ns: int
    patience_ns: int
    """Time that the program waits longer than the timeout of the request."""
    asked_ns: int
    """World time of the request."""
    is_sure: bool
    """Whether it must be answered, because there are no faults."""


class Tasks:
    """All requests of a world."""

    def __init__(self) -> None:
        self.asked: dict[int, Asked] = {}
        self.open: dict[int, Asked] = {}
        """Requests that have not ended."""

    @property
    def next_number(self) -> int:
        """Number of the next request."""
        return len(self.asked) + 1

    def announce(self, asked: Asked) -> None:
        """Record a request, before it is sent."""
        assert asked.number == self.next_number
        self.asked[asked.number] = self.open[asked.number] = asked
