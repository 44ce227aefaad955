"""Values as JSON has them: one set of rules for traces and for what commands print."""

from __future__ import annotations

import dataclasses
import enum
import json

__all__ = ["plain"]


def plain(value: object) -> object:
    """What JSON shows of a value it does not know itself; for `json.dumps(..., default=plain)`."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, set | frozenset):
        # The order inside a set of texts is another one in every process.
        return sorted(value, key=_rank)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return str(value)


def _rank(value: object) -> tuple[int, float, str]:
    """An order for what cannot be compared: numbers, then texts, then the rest as JSON."""
    if isinstance(value, int | float):
        return 0, value, ""
    if isinstance(value, str):
        return 1, 0, value
    return 2, 0, json.dumps(value, default=plain, sort_keys=True)
