"""The record of all that simulated programs publish.

Every publish has a unique number, which is a field of the object. So a checker can compare every
event of a subscriber with the publish that caused it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from skerry.objects.typeset import define_types
from skerry.protocol.patterns import PatternTree

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
"""All fields except the key."""

Publisher = tuple[str, int]
"""Name of a program, and number of its life."""

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
    """Number of earlier publishes of this type by the publisher."""
    connection: int
    """Publishes with the same value were sent on the same connection."""


class History:
    """All publishes of a world."""

    def __init__(self) -> None:
        self.publishes: dict[int, Publish] = {}
        self.values: dict[tuple[str, str, str], set[Any]] = defaultdict(set)
        """All published values, by type, key and field."""
        self.next_number = 1
        self._counts: dict[tuple[Publisher, str], int] = defaultdict(int)

    def announce(self, type_name: str, key: str, fields: _State) -> None:
        """Record the values of a publish, before it is published."""
        for name, value in fields.items():
            self.values[type_name, key, name].add(value)

    def add(
        self, publisher: Publisher, type_name: str, key: str, *, is_remove: bool, connection: int
    ) -> Publish:
        """Record a publish with the number `next_number`."""
        number = self.next_number
        self.next_number += 1
        index = self._counts[publisher, type_name]
        # Removals are not counted, because the removal of a missing object has no event.
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
    """The subject under which all programs publish an object; empty for the default one."""
    return f"/fleet/{type_name}/{key}" if key.startswith("s") else ""


def matches(pattern: str, type_name: str, key: str, subject: str) -> bool:
    """Whether a pattern selects an object that has this subject, or the default one."""
    tree = PatternTree()
    tree.add(pattern, True)
    return tree.matches_any(subject or f"/{type_name}/{key}")
