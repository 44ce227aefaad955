"""The codec of one struct, as calls on its plan: what compiled installations use."""

from __future__ import annotations

from typing import Any

from skerry.codec import decoder, encoder, pieces
from skerry.codec.hot_loops import StructLayout
from skerry.codec.pieces import Pieces
from skerry.codec.plans import StructPlan

__all__ = ["TableCodec"]


class TableCodec:
    """Encodes, decodes and cuts up objects of one struct."""

    def __init__(self, plan: StructPlan) -> None:
        self.plan: StructPlan = plan
        self.layout: StructLayout = StructLayout(plan)
        self.encode: Any = self.layout.encode
        """All set fields of an object, as bytes."""
        self.decode: Any = self.layout.decode
        """The object that the bytes are."""

    def encode_only(self, obj: object, mask: int) -> bytes:
        """The set fields of an object whose tags are in the mask."""
        return encoder.encode(self.plan, obj, mask)

    def encode_key(self, obj: object) -> bytes:
        """The canonical key of an object."""
        return encoder.encode_key(self.plan, obj)

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
