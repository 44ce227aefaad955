"""The types of recorded objects, learned from their descriptions."""

from __future__ import annotations

from collections import ChainMap
from typing import Any

from skerry.apps.recorder.node_rows import RecordedType
from skerry.client.core.received_types import BYTES_NAME
from skerry.client.core.route_table import SERVICES
from skerry.codec.envelope import ACCESS, INTERNAL
from skerry.errors import LimitExceeded
from skerry.limits import TYPE_COUNT_MAX
from skerry.objects.base import codec_of
from skerry.objects.classes import class_of
from skerry.objects.descriptors import from_description
from skerry.objects.internal import internal_class
from skerry.protocol.access.connection import HANDSHAKE
from skerry.schema.fingerprint import fingerprint
from skerry.schema.internal import internal_types
from skerry.schema.model import NamedType, StructType


class RecordedTypes:
    """Types by name: the internal ones, and the described ones with their last description.

    A node describes the types that it serves. In a group, each sender describes its own types. They
    may differ from those of others: objects are recorded with the definition of their sender.
    """

    def __init__(self, source: str = ACCESS) -> None:
        self._source = source
        self._named: dict[str, NamedType] = {}
        self._own: dict[int, dict[str, NamedType]] = {}
        self._own_count = 0
        self.known: dict[str, RecordedType] = {}
        """Structs by name, for the intake."""
        self.by_sender: dict[int, dict[str, RecordedType]] = {}
        """Structs by sender of a group and name, oldest sender first."""
        for type_ in internal_types().values():
            self._add(type_)

    def internal(self) -> list[StructType]:
        """The internal types whose objects can be recorded."""
        return [
            type_
            for name, type_ in self._named.items()
            if isinstance(type_, StructType) and not self.known[name].is_service
        ]

    def learn(self, descriptor: str, payload: bytes, *, sender: int = 0) -> NamedType | None:
        """Learn the described type and return it; None if it is known already.

        `sender` is the sender in a group that describes its own types. Raises CodecError or
        SchemaError for an invalid description, and LimitExceeded above TYPE_COUNT_MAX.
        """
        message: Any = internal_class(descriptor).decode(payload)
        own = self._own.get(sender, {}) if sender else self._named
        found = from_description(message, ChainMap(own, self._named))
        before = own.get(found.name)
        if before is not None and fingerprint(before) == fingerprint(found):
            return None
        if found.name not in self._named and len(self._named) >= TYPE_COUNT_MAX:
            raise LimitExceeded(
                what="count of types", value=len(self._named) + 1, limit=TYPE_COUNT_MAX
            )
        self._add(found)
        if sender:
            self._own_count += found.name not in own
            self._own.setdefault(sender, own)[found.name] = found
            if isinstance(found, StructType):
                self.by_sender.setdefault(sender, {})[found.name] = self.known[found.name]
            self._forget_senders(sender)
        return found

    def _forget_senders(self, latest: int) -> None:
        """Above TYPE_COUNT_MAX, forget the descriptions of the oldest senders.

        Their objects are then recorded with the latest definition of any sender.
        """
        while self._own_count > TYPE_COUNT_MAX and len(self._own) > 1:
            oldest = next(sender for sender in self._own if sender != latest)
            self._own_count -= len(self._own.pop(oldest))
            self.by_sender.pop(oldest, None)

    def _add(self, type_: NamedType) -> None:
        self._named[type_.name] = type_
        if not isinstance(type_, StructType):
            return
        before = self.known.get(type_.name)
        if before is not None and before.fingerprint == fingerprint(type_):
            return
        is_internal = type_.flags.internal and type_.name != BYTES_NAME
        known = RecordedType(
            codec_of(class_of(type_)).plan,
            fingerprint=fingerprint(type_),
            is_cached=type_.flags.cached,
            source=INTERNAL if is_internal else self._source,
            is_service=type_.name in SERVICES or type_.name in HANDSHAKE,
        )
        if before is not None and before.is_cached and known.is_cached:
            # Objects continue to exist when their type gets a new definition.
            known.subjects, known.previous = before.subjects, before.previous
        self.known[type_.name] = known
