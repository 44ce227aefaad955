"""Encodes, decodes and checks objects of one struct."""

from __future__ import annotations

from typing import Any

from skerry.codec import decoder, encoder, pieces
from skerry.codec.plans import StructPlan
from skerry.errors import DecodeError
from skerry.limits import STRUCT_COUNT_MAX

__all__ = ["StructLayout", "key_of"]


class StructLayout:
    """How objects of a class travel."""

    def __init__(self, plan: StructPlan) -> None:
        self._plan = plan
        self.cls = plan.cls
        self.key_mask = int(plan.key_mask)

    def decode(self, data: bytes) -> Any:
        """The object that the bytes are; DecodeError when they are none."""
        if len(data) > STRUCT_COUNT_MAX:
            # With fewer bytes there cannot be more structs. Counted before objects are made.
            pieces.split_whole(self._plan, data)
        return decoder.decode(self._plan, data)

    def encode(self, obj: object) -> bytes:
        """All set fields of an object."""
        return encoder.encode(self._plan, obj, -1)

    def fields_of(self, obj: object) -> int:
        """Property set of an object."""
        values = self._plan.values_of(obj)
        fields = self._plan.fields
        return sum(
            int(field.bit) for field, value in zip(fields, values, strict=True) if value is not None
        )

    def check(self, data: bytes, start: int) -> int:
        """Property set of the object that the bytes from `start` on are, in its exact form.

        -1 for all others; the compiled twin says so, too, of some that are in order but not usual.
        """
        try:
            found = pieces.split_whole(self._plan, data[start:])
        except DecodeError:
            return -1
        return found.present if found.is_canonical else -1


def key_of(layout: StructLayout, payload: bytes) -> bytes:
    return pieces.canonical_key(layout._plan, pieces.split_whole(layout._plan, payload))
