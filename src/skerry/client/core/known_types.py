"""The types that a space knows: those of its program, and those that the node described.

The program's own classes come first: where the node serves another definition of a type, objects
are still delivered as the program defines them. A type that the program does not define is used as
the node describes it, and changes when the node serves a further definition.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any, cast

from skerry.client.core.arguments import check_class
from skerry.client.core.received_types import ReceivedType
from skerry.client.core.send_buffer import SendPlan
from skerry.codec.projection import project
from skerry.errors import LocalProtocolError
from skerry.limits import CONFLICT_COUNT_MAX
from skerry.objects.base import Struct, codec_of
from skerry.objects.classes import class_of
from skerry.objects.descriptors import from_description
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, StructType
from skerry.schema.registry import Conflict, Registry
from skerry.schema.union import obstacle, reads_all, unite_deep


class KnownTypes:
    """Types by name with the classes of their objects."""

    def __init__(self) -> None:
        self.registry = Registry()
        """The types of the program, and the internal types."""
        for type_ in internal_types().values():
            self.registry.add(type_, origin="skerry")
        self._described: dict[str, NamedType] = {}
        """The last description of each type by the node."""
        own = cast("dict[str, NamedType]", self.registry)
        self.by_name: Mapping[str, NamedType] = ChainMap(own, self._described)
        """All types, as the space uses them."""
        self._conflicts: dict[str, Conflict] = {}
        self._narrow: set[str] = set()
        """Types that the node serves with values that the program's definition cannot hold."""
        self._classes: dict[str, Any] = {}
        self._shapes: dict[type[Struct], ReceivedType] = {}
        self._described_shapes: dict[str, ReceivedType] = {}
        self._send_plans: dict[type[Struct], SendPlan] = {}

    def classes(self) -> dict[str, Any]:
        """The classes of all types except internal ones, by name."""
        return {
            name: self.class_named(name)
            for name in sorted(self.by_name)
            if name not in internal_types()
        }

    def class_named(self, name: str) -> Any | None:
        found = self._classes.get(name)
        if found is None and name in self.by_name:
            found = class_of(self.by_name[name])
        return found

    def learn(self, cls: Any) -> None:
        """Use this class for objects of its type.

        Raises SchemaMismatchError if the program already uses a class with another definition.
        """
        self.registry.add(check_class(cls).descriptor, origin="this program")
        self._classes.setdefault(cls.descriptor.name, cls)

    def learn_description(
        self, message: Any, *, is_forwarded: bool = False
    ) -> tuple[NamedType, bool]:
        """Learn a type from its description. Returns the type, and whether it is new or changed.

        A description that another client sent and the node forwarded is only used for an unknown
        type: the node itself describes the types that it serves.
        """
        parts = ChainMap(self._described, cast("dict[str, NamedType]", self.registry))
        found = from_description(message, parts)
        before = self._described.get(found.name)
        if found == before or (is_forwarded and found.name in self.by_name):
            return found, False
        self._described[found.name] = found
        if found.name in self.registry:
            self._compare(self.registry[found.name], found)
            return found, False
        shape = self._described_shapes.get(found.name)
        if shape is not None and isinstance(found, StructType):
            cls = class_of(found)
            shape.become(cls, codec_of(cls).plan, found.flags.cached)
        return found, True

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Definitions of the node that are incompatible with those of the program."""
        return tuple(self._conflicts.values())

    def has_conflict(self, name: str) -> bool:
        """Whether the node serves an incompatible definition of a type."""
        return name in self._conflicts

    def is_narrow(self, name: str) -> bool:
        """Whether objects as the node serves them may have values that the program cannot read."""
        return name in self._narrow

    def readable(self, name: str, payload: bytes) -> bytes | None:
        """An object without the values that the program cannot read; None if these are its key."""
        shape = self.main_shape(name) if name in self._narrow else None
        if shape is None:
            return payload
        data, present = project(shape.plan, payload, shape.plan.mask)
        return None if shape.plan.key_mask & ~present else data

    def shape(self, cls: type[Struct]) -> ReceivedType:
        """How objects of a class are received."""
        found = self._shapes.get(cls)
        if found is None:
            self.learn(cls)
            found = ReceivedType(cls, codec_of(cls).plan, cls.descriptor.flags.cached)
            self._shapes[cls] = found
        return found

    def main_shape(self, name: str) -> ReceivedType | None:
        """How objects of a type are received if the program named no class; None if unknown."""
        type_ = self.by_name.get(name)
        if not isinstance(type_, StructType):
            return None
        cls: Any = self.class_named(name)
        if name in self.registry:
            return self.shape(cls)
        found = self._described_shapes.get(name)
        if found is None:
            found = ReceivedType(cls, codec_of(cls).plan, type_.flags.cached)
            self._described_shapes[name] = found
        return found

    def send_plan(self, cls: type[Struct]) -> SendPlan:
        """How objects of a class are published; LocalProtocolError if they cannot be."""
        found = self._send_plans.get(cls)
        if found is None:
            self.learn(cls)
            if cls.descriptor.flags.substruct_only:
                raise LocalProtocolError(
                    f"{cls.descriptor.name} can only be used inside other structs"
                )
            found = SendPlan(codec_of(cls), cls.descriptor.flags.cached)
            self._send_plans[cls] = found
        return found

    def _compare(self, own: NamedType, found: NamedType) -> None:
        """Note whether the definition that the node serves is compatible with the program's."""
        self._narrow.discard(own.name)
        if isinstance(own, StructType) and isinstance(found, StructType):
            is_compatible = isinstance(unite_deep(own, found), StructType)
            if is_compatible and not reads_all(own, found):
                self._narrow.add(own.name)
        else:
            is_compatible = obstacle(own, found) is None
        if is_compatible:
            self._conflicts.pop(own.name, None)
        elif own.name in self._conflicts or len(self._conflicts) < CONFLICT_COUNT_MAX:
            self._conflicts[own.name] = Conflict(
                known=own, known_from="this program", offered=found, offered_from="the node"
            )
