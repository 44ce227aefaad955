"""What simulated programs say, as somebody knows who hears all of them.

Every publish has a number that no other has, and carries it. So whatever a subscriber is told can
be held against who published it, and against what else that one did.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from skerry.objects.typeset import define_types
from skerry.protocol.patterns import PatternTree

__all__ = [
    "CLEANUP",
    "FIELDS",
    "MESSAGE",
    "PERSISTENT",
    "PLAIN",
    "TYPES",
    "History",
    "Publish",
    "Publisher",
    "matches",
    "moving_subject",
    "subject_of",
]

_FIELDS_TEXT: Final = (
    "1: [key] string id; 2: uint64 number; 3: uint8 level; 4: string note; 5: uint64 extra;"
)
TYPES: Final = define_types(
    f"struct Boat {{ {_FIELDS_TEXT} }}"
    f"struct Guest [cleanup] {{ {_FIELDS_TEXT} }}"
    f"struct Chart [persistent=true] {{ {_FIELDS_TEXT} }}"
    f"struct Call [cached=false] {{ {_FIELDS_TEXT} }}"
)
PLAIN: Final = "Boat"
CLEANUP: Final = "Guest"
PERSISTENT: Final = "Chart"
MESSAGE: Final = "Call"
FIELDS: Final = ("number", "level", "note", "extra")
"""All fields but the key."""

Publisher = tuple[str, int]
"""Name of a program, and which life of it."""

_State = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """One publish, or removal, of an object."""

    number: int
    publisher: Publisher
    type_name: str
    id: str
    is_remove: bool
    index: int
    """How many of this type the publisher had published before."""
    connection: int
    """Those with the same went out on the same connection for sure."""


class History:
    """All that was ever published."""

    def __init__(self) -> None:
        self.publishes: dict[int, Publish] = {}
        self.values: dict[tuple[str, str, str], set[Any]] = defaultdict(set)
        """What was ever given to a field, by type, key and name of the field."""
        self.next_number = 1
        self._counts: dict[tuple[Publisher, str], int] = defaultdict(int)

    def announce(self, type_name: str, key: str, fields: _State) -> None:
        """Before it is published: nobody may tell of it earlier."""
        for name, value in fields.items():
            self.values[type_name, key, name].add(value)

    def add(
        self, publisher: Publisher, type_name: str, key: str, *, is_remove: bool, connection: int
    ) -> Publish:
        """It was published, with `next_number` as its number."""
        number = self.next_number
        self.next_number += 1
        index = self._counts[publisher, type_name]
        # What is removed may not have been there, and then nobody is told: it is not counted.
        self._counts[publisher, type_name] += not is_remove
        publish = Publish(
            number=number,
            publisher=publisher,
            type_name=type_name,
            id=key,
            is_remove=is_remove,
            index=index,
            connection=connection,
        )
        self.publishes[number] = publish
        return publish


def subject_of(type_name: str, key: str) -> str:
    """The subject that all programs publish an object under; empty for the default one."""
    return f"/fleet/{type_name}/{key}" if key.startswith("s") else ""


def moving_subject(type_name: str, key: str, number: int) -> str:
    """The same, where those that have a subject of their own change it with each publish."""
    own = subject_of(type_name, key)
    return own and ("", own, f"/yard/{type_name}/{key}")[number % 3]


def matches(pattern: str, type_name: str, key: str, subject: str) -> bool:
    """Whether a pattern selects an object that has this subject, or the default one."""
    tree = PatternTree()
    tree.add(pattern, True)
    return tree.matches_any(subject or f"/{type_name}/{key}")
