"""What a checking router lets pass: publications and filters that harm no program of Goby."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from skerry.errors import DecodeError
from skerry.protocol.portal.identifiers import (
    IDENTIFIER_BYTES_MAX,
    read_identifier,
    split_frame,
)

_KNOWN_COUNT_MAX: Final = 4096
"""Identifiers that are remembered as valid. Any peer can invent more."""
_FILTER_STARTS: Final = (b"\x00", b"\x01")


class RouterChecks:
    """The checks of one router, and how many messages failed them."""

    def __init__(self) -> None:
        self.refused_publications_count = 0
        self.refused_filters_count = 0
        self._known: set[bytes] = set()

    def passes(self, parts: Sequence[bytes]) -> bool:
        """Whether a publication is passed on; `parts` are the frames of the message."""
        if len(parts) == 1 and self._is_valid(parts[0]):
            return True
        self.refused_publications_count += 1
        return False

    def filter_passes(self, parts: Sequence[bytes]) -> bool:
        """Whether a filter of a subscriber, or its end, is passed on."""
        if (
            len(parts) == 1
            and parts[0].startswith(_FILTER_STARTS)
            and len(parts[0]) <= IDENTIFIER_BYTES_MAX + 1
        ):
            return True
        self.refused_filters_count += 1
        return False

    def _is_valid(self, frame: bytes) -> bool:
        try:
            head, _ = split_frame(frame)
            if head not in self._known:
                read_identifier(head)
                if len(self._known) >= _KNOWN_COUNT_MAX:
                    self._known.clear()
                self._known.add(head)
        except DecodeError:
            return False
        return True
