"""The numbers of `schema.model.Kind`, as constants that compiled code can branch on.

A test compares the two.
"""

from __future__ import annotations

from typing import Final

BOOL: Final = 1
INT8: Final = 2
UINT8: Final = 6
UINT64: Final = 9
FLOAT16: Final = 10
FLOAT32: Final = 11
FLOAT64: Final = 12
STRING: Final = 13
BYTES: Final = 14
UUID: Final = 15
TIMEPOINT: Final = 16
DURATION: Final = 18
PROPERTY_SET: Final = 19
ANY: Final = 20
REF: Final = 21
ENUM: Final = 22
STRUCT: Final = 23
VECTOR: Final = 24
