"""What simulated programs ask of each other, as somebody knows who hears all of it.

Every request has a number that no other has, and says itself how it is to be answered. So a
response can be held against what was asked, and what was carried out against both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from skerry.objects.typeset import define_types
from skerry.testing.machines.node_history import Publisher

__all__ = ["HANDLERS", "MANNERS", "TASKS", "Asked", "Tasks"]

_FIELDS_TEXT: Final = "1: uint64 number; 2: string manner; 3: uint32 delayMs; 4: string note;"
TASKS: Final = define_types(
    f"struct Task [cached=false] {{ {_FIELDS_TEXT} }}"
    f"struct Chore [cached=false] {{ {_FIELDS_TEXT} }}"
    "struct Result [cached=false] { 1: uint64 number; 2: string server; }"
)
HANDLERS: Final = (("Task", ""), ("Task", "port"), ("Chore", "port"))
"""Types of requests, and names under which they are answered."""

MANNERS: Final = {"now": 10, "late": 8, "empty": 2, "fail": 2, "never": 1}
"""How requests are to be answered, and how often each is asked for: at once, after `delayMs`,
without an object, by a failure, or not before somebody says so."""


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
    """How much longer the program waits than it told the node."""
    asked_ns: int
    """When, in the time of the world."""
    is_sure: bool
    """Whether it has to be answered, since nothing stands in its way."""


class Tasks:
    """All that was ever asked."""

    def __init__(self) -> None:
        self.asked: dict[int, Asked] = {}
        self.open: dict[int, Asked] = {}
        """Those that have not ended."""

    @property
    def next_number(self) -> int:
        """That of the next request."""
        return len(self.asked) + 1

    def announce(self, asked: Asked) -> None:
        """Before it is asked: nobody may tell of it earlier."""
        assert asked.number == self.next_number
        self.asked[asked.number] = self.open[asked.number] = asked
