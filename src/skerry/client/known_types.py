"""The types a space knows: those of its program, and those that the node described."""

from __future__ import annotations

from typing import Any

from skerry.client.arguments import check_class
from skerry.client.events import Shape
from skerry.client.sending import SendPlan
from skerry.errors import LocalProtocolError, SchemaMismatchError
from skerry.objects.base import Struct, codec_of
from skerry.objects.classes import class_of
from skerry.objects.descriptors import from_description
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, StructType
from skerry.schema.registry import Conflict, Registry

__all__ = ["KnownTypes"]


class KnownTypes:
    """Types by name with the classes of their objects. The program's own classes come first."""

    def __init__(self) -> None:
        self.registry = Registry()
        for type_ in internal_types().values():
            self.registry.add(type_, origin="skerry")
        self._classes: dict[str, Any] = {}
        self._shapes: dict[type[Struct], Shape] = {}
        self._send_plans: dict[type[Struct], SendPlan] = {}

    def classes(self) -> dict[str, Any]:
        """The classes of all types but the internal ones, by name."""
        return {
            name: self.class_named(name)
            for name in sorted(self.registry)
            if name not in internal_types()
        }

    def class_named(self, name: str) -> Any | None:
        """The class of a type, if it is known."""
        found = self._classes.get(name)
        if found is None and name in self.registry:
            found = self._classes[name] = class_of(self.registry[name])
        return found

    def learn(self, cls: Any) -> None:
        """Use this class for objects of its type; SchemaMismatchError if that is another one."""
        self.registry.add(check_class(cls).descriptor, origin="this program")
        self._classes.setdefault(cls.descriptor.name, cls)

    def learn_description(self, message: Any) -> tuple[NamedType, bool]:
        """The type that the node describes, and whether it is new here.

        Where this program knows another definition, its own stays in use and the conflict is kept
        to be shown: the node may well send objects that both can read.
        """
        found = from_description(message, self.registry)
        is_new = found.name not in self.registry
        try:
            self.registry.add(found, origin="the node")
        except SchemaMismatchError:
            return self.registry[found.name], False
        return found, is_new

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Definitions that differ from those in use."""
        return self.registry.conflicts

    def has_conflict(self, name: str) -> bool:
        """Whether the node knows another definition of a type."""
        return any(conflict.known.name == name for conflict in self.registry.conflicts)

    def shape(self, cls: type[Struct]) -> Shape:
        """How objects of a class are received."""
        found = self._shapes.get(cls)
        if found is None:
            self.learn(cls)
            found = Shape(cls, codec_of(cls).plan, cls.descriptor.flags.cached)
            self._shapes[cls] = found
        return found

    def main_shape(self, name: str) -> Shape | None:
        """How objects of a type are received for which nobody named a class."""
        if not isinstance(self.registry.get(name), StructType):
            return None
        cls: Any = self.class_named(name)
        return self.shape(cls)

    def send_plan(self, cls: type[Struct]) -> SendPlan:
        """How objects of a class are published; LocalProtocolError for those that cannot be."""
        found = self._send_plans.get(cls)
        if found is None:
            self.learn(cls)
            if cls.descriptor.flags.substruct_only:
                raise LocalProtocolError(
                    f"{cls.descriptor.name} is only for use inside other structs"
                )
            found = SendPlan(codec_of(cls), cls.descriptor.flags.cached)
            self._send_plans[cls] = found
        return found
