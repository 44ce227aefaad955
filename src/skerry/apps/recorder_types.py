"""The types of what is recorded, as they are described on the way."""

from __future__ import annotations

from typing import Any

from skerry.apps.recorder_intake import KnownType
from skerry.client.events import BYTES_NAME
from skerry.client.interests import SERVICES
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

__all__ = ["RecordedTypes"]


class RecordedTypes:
    """Types by name: the internal ones, and those that were described, each as it was last."""

    def __init__(self, source: str = ACCESS) -> None:
        self._source = source
        self._named: dict[str, NamedType] = {}
        self.known: dict[str, KnownType] = {}
        """Structs, as the intake needs them."""
        for type_ in internal_types().values():
            self._add(type_)

    def internal(self) -> list[StructType]:
        """The internal types whose objects can be recorded."""
        return [
            type_
            for name, type_ in self._named.items()
            if isinstance(type_, StructType) and not self.known[name].is_service
        ]

    def learn(self, descriptor: str, payload: bytes) -> NamedType | None:
        """The type that is described; None for one that is in use already.

        CodecError or SchemaError for what describes nothing, LimitExceeded past the bound of types.
        """
        message: Any = internal_class(descriptor).decode(payload)
        found = from_description(message, self._named)
        before = self._named.get(found.name)
        if before is not None and fingerprint(before) == fingerprint(found):
            return None
        if before is None and len(self._named) >= TYPE_COUNT_MAX:
            raise LimitExceeded(
                what="count of types", value=len(self._named) + 1, limit=TYPE_COUNT_MAX
            )
        self._add(found)
        return found

    def _add(self, type_: NamedType) -> None:
        self._named[type_.name] = type_
        if not isinstance(type_, StructType):
            return
        is_internal = type_.flags.internal and type_.name != BYTES_NAME
        known = KnownType(
            codec_of(class_of(type_)).plan,
            fingerprint=fingerprint(type_),
            is_cached=type_.flags.cached,
            source=INTERNAL if is_internal else self._source,
            is_service=type_.name in SERVICES or type_.name in HANDSHAKE,
        )
        before = self.known.get(type_.name)
        if before is not None and before.is_cached and known.is_cached:
            # Its objects are still there, whatever they look like from now on.
            known.subjects, known.former = before.subjects, before.former
        self.known[type_.name] = known
