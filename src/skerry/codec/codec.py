"""The codec of one struct: encodes, decodes, merges and splits its objects by the struct's plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skerry.codec import decoder, encoder, pieces
from skerry.codec.hot_loops import StructLayout
from skerry.codec.pieces import Pieces
from skerry.codec.plans import StructPlan


class Codec:
    def __init__(self, plan: StructPlan) -> None:
        self.plan: StructPlan = plan
        self.layout: StructLayout = StructLayout(plan)
        self.encode: Callable[[object], bytes] = self.layout.encode
        """Encodes all set fields of an object."""
        self.decode: Callable[[bytes], Any] = self.layout.decode

    def encode_only(self, obj: object, mask: int) -> bytes:
        """Encode the set fields whose tags are in the mask."""
        return encoder.encode(self.plan, obj, mask)

    def encode_key(self, obj: object) -> bytes:
        return encoder.encode_key(self.plan, obj)

    def decode_from(self, data: bytes, start: int) -> tuple[Any, int]:
        """The object that begins at `start`, and the offset of its end."""
        return decoder.decode_from(self.plan, data, start)

    def split(self, data: bytes, start: int = 0) -> Pieces:
        """Check the object that begins at `start` and split it into its encoded fields."""
        return pieces.split(self.plan, data, start)

    def key(self, data: bytes) -> bytes:
        """The canonical key of an encoded object."""
        return pieces.canonical_key(self.plan, pieces.split_whole(self.plan, data))

    def key_of(self, parts: Pieces) -> bytes:
        """The canonical key of an object that is split already."""
        return pieces.canonical_key(self.plan, parts)

    def normalize(self, data: bytes) -> bytes:
        """The bytes that `encode` would return for this object."""
        return pieces.normalize(self.plan, data)

    def merge(self, stored: bytes, update: bytes, attributes: int) -> bytes:
        """Apply an encoded update to an encoded object, limited to the tags in `attributes`."""
        return pieces.merge(self.plan, stored, update, attributes)
