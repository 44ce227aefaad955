"""The codec of one struct, as calls on its plan: what compiled installations use."""

from __future__ import annotations

from typing import Any

from skerry.codec import decoder, encoder, pieces
from skerry.codec.pieces import Pieces
from skerry.codec.plans import StructPlan
from skerry.limits import STRUCT_COUNT_MAX

__all__ = ["TableCodec"]


class TableCodec:
    """Encodes, decodes and cuts up objects of one struct."""

    def __init__(self, plan: StructPlan) -> None:
        self.plan: StructPlan = plan

    def encode(self, obj: object) -> bytes:
        """All set fields of an object."""
        return encoder.encode(self.plan, obj, -1)

    def encode_only(self, obj: object, mask: int) -> bytes:
        """The set fields of an object whose tags are in the mask."""
        return encoder.encode(self.plan, obj, mask)

    def encode_key(self, obj: object) -> bytes:
        """The canonical key of an object."""
        return encoder.encode_key(self.plan, obj)

    def decode(self, data: bytes) -> Any:
        """The object that the bytes are."""
        if len(data) > STRUCT_COUNT_MAX:
            # With fewer bytes there cannot be more structs. Counted before objects are made.
            pieces.split_whole(self.plan, data)
        return decoder.decode(self.plan, data)

    def decode_from(self, data: bytes, start: int) -> tuple[Any, int]:
        """The object that begins at `start`, and where it ends."""
        return decoder.decode_from(self.plan, data, start)

    def split(self, data: bytes, start: int = 0) -> Pieces:
        """The checked pieces of the object that begins at `start`."""
        return pieces.split(self.plan, data, start)

    def key(self, data: bytes) -> bytes:
        """The canonical key of an encoded object."""
        return pieces.canonical_key(self.plan, pieces.split_whole(self.plan, data))

    def key_of(self, parts: Pieces) -> bytes:
        """The canonical key of an object that was cut up already."""
        return pieces.canonical_key(self.plan, parts)

    def normalize(self, data: bytes) -> bytes:
        """The bytes that `encode` would have written for this object."""
        return pieces.normalize(self.plan, data)

    def merge(self, stored: bytes, update: bytes, attributes: int) -> bytes:
        """An encoded object after an encoded update of what the attributes name."""
        return pieces.merge(self.plan, stored, update, attributes)
