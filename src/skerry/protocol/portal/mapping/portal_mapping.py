"""Maps publications of a portal to objects and bytes of a space, and back, by rules.

Loops are impossible, whatever the rules of any number of mappings, portals and spaces are: a
publication of a mapping has the thread id `MAPPING_THREAD`, and no mapping takes a publication with
that id into a space. So what has been in a space once enters no space by a portal. Further, what a
mapping has published in its space does not return to its portal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from skerry.codec.bson import decode_bson, encode_bson
from skerry.errors import (
    DecodeError,
    LocalProtocolError,
    SchemaCheckError,
    SchemaError,
    SkerryError,
)
from skerry.objects.base import Struct
from skerry.objects.classes import class_of
from skerry.objects.json import from_json_values, to_json_values
from skerry.protocol.machine import MachineEvent
from skerry.protocol.patterns import check_subject
from skerry.protocol.portal.identifiers import Identifier, Scheme, prefix, scheme_text
from skerry.protocol.portal.mapping.contents import bytes_of_payload, payload_of_bytes
from skerry.protocol.portal.mapping.message_structs import MessageObjects, MessageStructs
from skerry.protocol.portal.mapping.protobuf_types import ProtobufTypes
from skerry.protocol.portal.mapping.rules import CompiledRule, PortalRule
from skerry.schema.model import StructType

MAPPING_THREAD: Final = 0x736B65727279
"""The thread id of publications of mappings: `skerry` in ASCII. Thread ids of programs are hashes
of 64 bits, so none of them is equal to it."""
MAPPED_NAME_COUNT_MAX: Final = 10_000
"""Identifiers for which a mapping remembers what to do. Any program can invent them; beyond it, all
are forgotten and found again."""
TROUBLE_COUNT_MAX: Final = 1000
"""Publications and types of which a mapping reports that they cannot be mapped. Further ones are
only counted."""

_INTERNAL: Final = "goby::zeromq::_internal"
"""How the groups begin in which clients and the manager talk; they are never mapped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMapped(MachineEvent):
    """Publications or objects cannot be mapped. Reported once for each of them."""

    what: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingStatistics:
    """Counters of a mapping."""

    into_space_count: int
    """Publications that were mapped into the space."""
    into_portal_count: int
    """Updates of the space that were mapped to the portal."""
    unmapped_count: int
    """Publications and updates that match a rule and could not be mapped."""
    returned_count: int
    """Publications and updates that were dropped because a mapping is their origin."""
    removes_count: int
    """Removes of objects, for which a portal has no publication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceItem:
    """What a publication becomes in the space: an object, or bytes if `obj` is None."""

    subject: str
    """Empty for the default subject of the object."""
    obj: Any = None
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalItem:
    """What an update of the space becomes in the portal."""

    group: str
    scheme: int
    type_name: str
    payload: bytes


class SpaceSource:
    """What a rule takes from the space: objects of a type, or bytes of subjects of a pattern."""

    def __init__(self, rule: CompiledRule, scheme: int, type_name: str) -> None:
        self.rule = rule
        self.scheme = scheme
        self.type_name = type_name
        """The type of the publications, if the rule does not say."""
        self.struct: StructType | None = None
        self.objects: MessageObjects | None = None

    @property
    def pattern(self) -> str:
        """The subjects of bytes."""
        return self.rule.pattern


class _Route:
    """What becomes of the publications with one identifier."""

    def __init__(self, rule: CompiledRule, subject: str) -> None:
        self.rule = rule
        self.subject = subject
        self.objects: MessageObjects | None = None
        self.json_class: Any = None
        self.fault = ""
        """Why they cannot be mapped."""


class PortalMapping:
    """The mapping between one portal and one space."""

    def __init__(
        self,
        rules: Sequence[PortalRule],
        protobuf: ProtobufTypes | None = None,
        types: Mapping[str, StructType] | None = None,
    ) -> None:
        """`protobuf` has the messages of PROTOBUF, and `types` the types of JSON.

        Raises SchemaError if a rule names an unknown message or type, or one that cannot be mapped.
        """
        self._rules = [CompiledRule(rule) for rule in rules]
        self._protobuf = protobuf if protobuf is not None else ProtobufTypes()
        self._types = types if types is not None else {}
        self._structs = MessageStructs()
        self._objects: dict[tuple[str, int], MessageObjects] = {}
        self._routes: dict[tuple[str, int, str], _Route | None] = {}
        self._events: list[MachineEvent] = []
        self._troubles: set[str] = set()
        self._into_space_count = 0
        self._into_portal_count = 0
        self._unmapped_count = 0
        self._returned_count = 0
        self._removes_count = 0
        for rule in self._rules:
            self._check(rule)
        self.sources: list[SpaceSource] = [
            source for rule in self._rules if rule.rule.is_out for source in self._sources(rule)
        ]
        """What to subscribe to in the space."""

    @property
    def levels(self) -> list[tuple[str | None, int | None, str | None]]:
        """Group, scheme and type of the subscriptions to the portal, none of which covers another.

        None stands for any; the levels after it are None, too.
        """
        found = {prefix(*rule.levels): rule.levels for rule in self._rules if rule.rule.is_in}
        return [
            levels
            for text, levels in sorted(found.items())
            if not any(text != other and text.startswith(other) for other in found)
        ]

    def into_space(self, identifier: Identifier, payload: bytes) -> SpaceItem | None:
        """What a publication becomes in the space; None if nothing."""
        if identifier.thread == MAPPING_THREAD:
            self._returned_count += 1
            return None
        return self.item_of(identifier.group, identifier.scheme, identifier.type_name, payload)

    def item_of(self, group: str, scheme: int, type_name: str, payload: bytes) -> SpaceItem | None:
        """What becomes of a publication that is not one of a mapping, such as one of a log."""
        key = (group, scheme, type_name)
        try:
            route = self._routes[key]
        except KeyError:
            route = self._remember(key)
        if route is None:
            return None
        fault = route.fault
        if not fault:
            try:
                item = self._converted(route, scheme, payload)
            except SkerryError as error:
                fault = str(error)
            else:
                self._into_space_count += 1
                return item
        self._note_trouble(f"publications /{group}/{scheme_text(scheme)}/{type_name}/", fault)
        return None

    def into_portal(
        self,
        source: SpaceSource,
        subject: str,
        value: Struct | bytes,
        *,
        is_own: bool = False,
        is_remove: bool = False,
    ) -> PortalItem | None:
        """What an update that `source` selected becomes in the portal; None if nothing.

        `is_own` says that this mapping published it.
        """
        if is_own:
            self._returned_count += 1
            return None
        if is_remove:
            self._removes_count += 1
            return None
        found = source.rule.group_and_type_of(subject, source.type_name)
        if found is None:
            return None
        group, type_name = found
        try:
            # Checked here, since a faulty identifier ends the Goby programs that receive it.
            prefix(group, source.scheme, type_name)
            payload = _payload(source, value)
        except SkerryError as error:
            self._note_trouble(f"updates under {subject:.120}", str(error))
            return None
        self._into_portal_count += 1
        return PortalItem(group=group, scheme=source.scheme, type_name=type_name, payload=payload)

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    def take_events(self) -> list[MachineEvent]:
        """The events since the last call, oldest first."""
        events, self._events = self._events, []
        return events

    def statistics(self) -> MappingStatistics:
        """An immutable snapshot of the counters."""
        return MappingStatistics(
            into_space_count=self._into_space_count,
            into_portal_count=self._into_portal_count,
            unmapped_count=self._unmapped_count,
            returned_count=self._returned_count,
            removes_count=self._removes_count,
        )

    # -- inside

    def _check(self, rule: CompiledRule) -> None:
        """Raise SchemaError if a message or type that the rule names cannot be mapped."""
        config = rule.rule
        number = config.number
        if number is None or config.is_bytes(number):
            return
        if number == Scheme.JSON:
            if config.object not in self._types:
                known = ", ".join(sorted(self._types)) or "none"
                raise SchemaCheckError(f"there is no type {config.object}; there are: {known}")
        elif "*" not in config.type:
            self._message_objects(rule, config.type)

    def _sources(self, rule: CompiledRule) -> Iterable[SpaceSource]:
        config = rule.rule
        number = config.number
        assert number is not None
        if config.is_bytes(number):
            yield SpaceSource(rule, number, "CSTR" if number == Scheme.CSTR else config.type)
        elif number == Scheme.JSON:
            source = SpaceSource(rule, number, config.type)
            source.struct = self._types[config.object]
            yield source
        else:
            for name in sorted(self._protobuf.names()):
                if rule.matches_type(name):
                    source = SpaceSource(rule, number, name)
                    try:
                        source.objects = self._message_objects(rule, name)
                    except SchemaError as error:
                        # The rule selects it by a wild card, so others must not suffer.
                        self._note_trouble(f"the message {name}", str(error))
                        continue
                    source.struct = source.objects.struct
                    yield source

    def _remember(self, key: tuple[str, int, str]) -> _Route | None:
        if len(self._routes) >= MAPPED_NAME_COUNT_MAX:
            self._routes.clear()
        route = self._routes[key] = self._find_route(*key)
        return route

    def _find_route(self, group: str, scheme: int, type_name: str) -> _Route | None:
        if group.startswith(_INTERNAL):
            return None
        for rule in self._rules:
            if rule.rule.is_in and rule.matches(group, scheme, type_name):
                break
        else:
            return None
        is_bytes = rule.rule.is_bytes(scheme)
        route = _Route(rule, rule.subject_of(group, scheme, type_name, is_bytes=is_bytes))
        try:
            if route.subject:
                check_subject(route.subject)
        except LocalProtocolError as error:
            route.fault = str(error)
        if is_bytes:
            return route
        if scheme == Scheme.JSON:
            route.json_class = class_of(self._types[rule.rule.object])
            return route
        try:
            route.objects = self._message_objects(rule, type_name)
        except SchemaError as error:
            route.fault = str(error)
        return route

    def _message_objects(self, rule: CompiledRule, type_name: str) -> MessageObjects:
        key = (type_name, id(rule))
        found = self._objects.get(key)
        if found is None:
            message = self._protobuf.find(type_name)
            if message is None:
                missing = ", ".join(self._protobuf.missing_imports())
                absent = f" (missing imports: {missing:.300})" if missing else ""
                raise SchemaCheckError(
                    f"no descriptor defines the message {type_name:.200}{absent}"
                )
            config = rule.rule
            struct = self._structs.struct(
                message.DESCRIPTOR, name=config.object, key=config.key, is_cached=config.cached
            )
            found = self._objects[key] = MessageObjects(message, struct)
        return found

    def _converted(self, route: _Route, scheme: int, payload: bytes) -> SpaceItem:
        obj: Struct | None = None
        if route.objects is not None:
            obj = route.objects.object_of(payload)
        elif route.json_class is not None:
            obj = from_json_values(route.json_class, decode_bson(payload))
        if obj is not None:
            for field in type(obj).descriptor.key_fields:
                if not obj.is_set(field.name):
                    detail = "it is part of the key and is not set"
                    name = type(obj).descriptor.name
                    raise DecodeError(type_name=name, field=field.name, detail=detail)
            return SpaceItem(subject=route.subject, obj=obj)
        is_opaque = route.rule.rule.opaque
        data = bytes_of_payload(scheme, payload, is_opaque=is_opaque)
        return SpaceItem(subject=route.subject, data=data)

    def _note_trouble(self, what: str, detail: str) -> None:
        self._unmapped_count += 1
        if len(self._troubles) < TROUBLE_COUNT_MAX and what not in self._troubles:
            self._troubles.add(what)
            self._events.append(NotMapped(what=what, detail=detail))


def _payload(source: SpaceSource, value: Any) -> bytes:
    if source.objects is not None:
        return source.objects.encoded(value)
    if source.struct is not None:
        return encode_bson(to_json_values(value))
    return payload_of_bytes(source.scheme, value, is_opaque=source.rule.rule.opaque)
