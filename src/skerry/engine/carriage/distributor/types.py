"""Types as a carriage needs them: their subjects, descriptions, and the check of messages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Final

from skerry.codec.pieces import canonical_key, split
from skerry.codec.subjects import default_pattern, default_subject
from skerry.engine.dispatch.client_queue import TIME_S_MAX
from skerry.engine.types.scopes import is_site_message
from skerry.errors import DecodeError
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.objects.descriptors import describe
from skerry.protocol.access.header import NEVER, Header, write_header
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, StructType, dependencies

CARRIER_SUBJECT_COUNT_MAX: Final = 1000
"""Default subjects of one type that a node caches by key, since messages of few keys are frequent.
Beyond it the cache is cleared."""


class CarriedType:
    """A struct type whose messages may be forwarded."""

    def __init__(self, type_: StructType) -> None:
        self.type = type_
        self.plan = codec_of(class_of(type_)).plan
        self.is_carried = is_site_message(type_)
        """Whether its objects are distributed by the group at all."""
        self.names = frozenset(part.name for part in (*dependencies(type_), type_))
        """Its name and those of the types inside."""
        own = default_pattern(self.plan)
        self._own = own
        self._prefix = own.partition("*")[0]
        self._slash_count = own.count("/")
        self._has_key = bool(self.plan.keys)
        self._subjects: dict[bytes, str] = {}

    @cached_property
    def descriptions(self) -> list[tuple[str, bytes]]:
        """Subject and data of each description, types inside first."""
        parts = (*dependencies(self.type), self.type)
        return [describing(part) for part in parts if part.name not in internal_types()]

    def subject_of(self, header: Header, payload: bytes) -> str:
        """The subject of a message: that of its header, or else the default one."""
        if header.subject:
            return header.subject
        if not self._has_key:
            return self._own
        pieces = split(self.plan, payload, 0)
        key = canonical_key(self.plan, pieces)
        subject = self._subjects.get(key)
        if subject is None:
            if len(self._subjects) >= CARRIER_SUBJECT_COUNT_MAX:
                self._subjects.clear()
            subject = self._subjects[key] = default_subject(self.plan, pieces)
        return subject

    def is_default(self, subject: str) -> bool:
        """Whether a subject has the form of a default subject of this type."""
        if not self._has_key:
            return subject == self._own
        return subject.startswith(self._prefix) and subject.count("/") == self._slash_count

    def check(self, header: Header, payload: bytes) -> None:
        """Raise DecodeError if a node would reject the message."""
        pieces = split(self.plan, payload, 0)
        if pieces.stop != len(payload):
            raise DecodeError(type_name=self.type.name, detail="bytes follow the object")
        if self.plan.key_mask & ~pieces.present:
            raise DecodeError(type_name=self.type.name, detail="the key is not complete")
        if header.remove_obj == 1:
            raise DecodeError(type_name=self.type.name, detail="a message cannot be removed")
        # Negated, because comparisons with NaN are false.
        if header.sent_time != NEVER and not (-TIME_S_MAX <= header.sent_time <= TIME_S_MAX):
            raise DecodeError(type_name=self.type.name, detail="sentTime is not a valid time")


class CarriedTypes:
    def __init__(self, registry: Mapping[str, NamedType]) -> None:
        self._registry = registry
        self._made: dict[str, CarriedType] = {}

    def get(self, name: str) -> CarriedType | None:
        """The struct type of this name; None if the node does not know one."""
        type_ = self._registry.get(name)
        made = self._made.get(name)
        if made is not None and made.type is type_:
            return made
        if not isinstance(type_, StructType):
            return None
        # The registry is bounded, so these are.
        made = self._made[name] = CarriedType(type_)
        return made


def describing(type_: NamedType) -> tuple[str, bytes]:
    """The subject and the data of the message that describes a type to the group."""
    obj = describe(type_)
    header = Header(obj.descriptor.name)
    header.attributes = int(obj.attributes)
    payload = obj.encode()
    plan = codec_of(type(obj)).plan
    return default_subject(plan, split(plan, payload, 0)), write_header(header) + payload
