"""Encodes, decodes and checks objects of one struct."""

from __future__ import annotations

from typing import Any

from skerry.codec import decoder, encoder, pieces
from skerry.codec.plans import StructPlan
from skerry.errors import DecodeError
from skerry.limits import STRUCT_COUNT_MAX


class StructLayout:
    """Encodes, decodes and checks objects of a class."""

    def __init__(self, plan: StructPlan) -> None:
        self._plan = plan
        self.cls = plan.cls
        self.key_mask = int(plan.key_mask)

    def decode(self, data: bytes) -> Any:
        """Decode an object. Raises DecodeError if the bytes are not an object of the type."""
        if len(data) > STRUCT_COUNT_MAX:
            # Fewer bytes cannot hold more structs. They are counted before objects are created.
            pieces.split_whole(self._plan, data)
        return decoder.decode(self._plan, data)

    def encode(self, obj: object) -> bytes:
        """Encode all set fields of an object."""
        return encoder.encode(self._plan, obj, -1)

    def fields_of(self, obj: object) -> int:
        """Property set of an object."""
        values = self._plan.values_of(obj)
        fields = self._plan.fields
        return sum(
            int(field.bit) for field, value in zip(fields, values, strict=True) if value is not None
        )

    def check(self, data: bytes, start: int) -> int:
        """Property set of the object that begins at `start`, if it is in canonical form.

        -1 for all others. The compiled twin also returns -1 for some valid but unusual ones.
        """
        try:
            found = pieces.split_whole(self._plan, data[start:])
        except DecodeError:
            return -1
        return found.present if found.is_canonical else -1


def key_of(layout: StructLayout, payload: bytes) -> bytes:
    return pieces.canonical_key(layout._plan, pieces.split_whole(layout._plan, payload))
