"""A second codec for comparisons: it encodes and decodes by `encoder` and `decoder` alone, without
the hot loops that `Codec` uses for whole objects. Both must give equal results and equal errors.
"""

from __future__ import annotations

from typing import Any

from skerry.codec import decoder, encoder, pieces
from skerry.codec.codec import Codec
from skerry.codec.plans import StructPlan
from skerry.limits import STRUCT_COUNT_MAX


class PlanWalk:
    """Has the methods of `Codec`."""

    def __init__(self, plan: StructPlan) -> None:
        self.plan = plan
        self._codec = Codec(plan)

    def encode(self, obj: object) -> bytes:
        return encoder.encode(self.plan, obj, -1)

    def decode(self, data: bytes) -> Any:
        if len(data) > STRUCT_COUNT_MAX:
            pieces.split_whole(self.plan, data)  # counts the structs
        return decoder.decode(self.plan, data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._codec, name)
